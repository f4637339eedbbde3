"""`busload-gateway`: serve OpenAI's interface over HTTP."""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import version

from pydantic import SecretStr

from busload_shared.errors import SettingsInvalid

from .settings import PREFIX, GatewaySettings, read_settings

_MISSING = 'the gateway needs FastAPI and uvicorn: pip install "busload[gateway]"'


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 when it was told to stop, 1 when it broke, 2 for a wrong setting."""
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.command == "new-key":
            return _new_key(chosen.name, operator=chosen.operator)
        settings = read_settings(os.environ)
        return _openapi(settings) if chosen.command == "openapi" else _serve(settings)
    except SettingsInvalid as error:
        print(f"busload-gateway: {error}", file=sys.stderr)
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "python_multipart", "jinja2"):
            raise
        print(f"busload-gateway: {_MISSING}", file=sys.stderr)
    return 2


def _serve(settings: GatewaySettings) -> int:
    from .access_log import configure_logs
    from .serving import serve

    configure_logs(settings.log_level)
    return serve(settings)


def _openapi(settings: GatewaySettings) -> int:
    from .application import describe

    print(json.dumps(describe(settings).openapi(), indent=2))
    return 0


def _new_key(name: str, *, operator: bool) -> int:
    from .keys import new_key

    try:
        secret, key = new_key(name)
    except ValueError:
        raise SettingsInvalid("a key's name is 1 to 64 letters, digits, - and _") from None
    print(f"the key, shown this once: {secret}", file=sys.stderr)
    print(f'[[keys]]\nname = "{key.name}"\nsha256 = "{key.sha256}"' + ("\noperator = true" if operator else ""))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="busload-gateway",
        description="Serve OpenAI's HTTP interface in front of Busload's queues.",
        epilog="Settings are read from the environment:\n\n" + _settings(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"busload {version('busload')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("serve", help="serve; what is done without a command")
    commands.add_parser("openapi", help="print the OpenAPI document")
    key = commands.add_parser("new-key", help="print a fresh key, and its lines for the keys file")
    key.add_argument("name", help="whose key it is: letters, digits, - and _")
    key.add_argument("--operator", action="store_true", help="it opens the operations page too")
    return parser


def _settings() -> str:
    lines = []
    for name, field in GatewaySettings.model_fields.items():
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        shown = "none" if default in ("", ()) else str(default).lower() if isinstance(default, bool) else str(default)
        text = textwrap.fill(f"{field.description} [{shown}]", 76, initial_indent="    ", subsequent_indent="    ")
        lines.append(f"{PREFIX}{name.upper()}\n{text}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

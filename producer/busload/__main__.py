"""The `busload` command, and `python -m busload`."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line. Exits with 2, and says how to install it, when its libraries are missing."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        print(
            f"busload: the command line needs {' and '.join(missing)}. Run: pip install 'busload[cli]'", file=sys.stderr
        )
        sys.exit(2)
    from .cli.app import app

    app(prog_name="busload")


if __name__ == "__main__":
    main()

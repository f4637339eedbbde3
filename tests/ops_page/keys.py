"""Keys for tests of the operations page."""

from __future__ import annotations

from pathlib import Path

from busload.gateway.keys import new_key

OPS_KEY = "of-the-settings-0123456789abcdef"


def keys_toml(path: Path, **operators: bool) -> dict[str, str]:
    """Write a keys file; returns each name's secret."""
    secrets, lines = {}, []
    for name, is_operator in operators.items():
        secrets[name], key = new_key(name)
        lines.append(f'[[keys]]\nname = "{name}"\nsha256 = "{key.sha256}"\noperator = {str(is_operator).lower()}\n')
    path.write_text("\n".join(lines), encoding="utf-8")
    return secrets

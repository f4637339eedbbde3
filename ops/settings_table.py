"""Keeps the README's table of settings true.

python ops/settings_table.py           print the table
python ops/settings_table.py --write   put it into README.md, between its markers
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from busload_worker.settings import PREFIX, VLLM_PREFIX, Settings

README = Path(__file__).parents[1] / "README.md"
START, END = "<!-- settings -->", "<!-- /settings -->"
UNITS = {"ms": "ms", "s": "s", "bytes": "bytes", "tokens": "tokens"}
MADE_AT_START = {"worker_name": "host name and process id"}
"""Defaults that are not the same on every machine, in words."""


def table() -> str:
    """The table, one row for each setting."""
    rows = ["| setting | environment | default | unit | meaning |", "|---|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        variable = f"{VLLM_PREFIX}<OPTION>" if name == "vllm" else f"{PREFIX}{name.upper()}"
        unit = UNITS.get(name.rpartition("_")[2], "")
        cells = (f"`{name}`", f"`{variable}`", _default(name, field), unit, _meaning(field, unit))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _default(name: str, field: FieldInfo) -> str:
    if name in MADE_AT_START:
        return MADE_AT_START[name]
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        value = str(value).lower()
    if value is None or value in ("", {}):
        return "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _meaning(field: FieldInfo, unit: str) -> str:
    """The description, without the unit that has a column of its own."""
    text = field.description or ""
    return re.sub(rf", {unit}$", "", text).replace("|", "\\|") if unit else text.replace("|", "\\|")


def updated(readme: str) -> str:
    """The README's text with the table as it should be."""
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{README.name} has no {START} … {END}")
    return f"{before}{START}\n{table()}\n{END}{after}"


def main() -> None:
    """Print the table, or write it."""
    if "--write" in sys.argv[1:]:
        README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()

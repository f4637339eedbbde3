"""docs/gateway.md says what the gateway does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pydantic import SecretStr

from busload.gateway.application import describe
from busload.gateway.keys import Key, KeysFile
from busload.gateway.settings import PREFIX, GatewaySettings
from busload.openai_api.parameters import IGNORED, NEUTRAL

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table() -> str:
    rows = ["| environment | default | meaning |", "|---|---|---|"]
    for name, field in GatewaySettings.model_fields.items():
        value = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        shown = "none" if value in ("", ()) else f"`{str(value).lower() if isinstance(value, bool) else value}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows)


def test_the_table_of_settings_is_up_to_date() -> None:
    there = TEXT.partition("<!-- settings -->\n")[2].partition("<!-- /settings -->")[0].strip()
    assert there == table(), f"put this into {PAGE.name}:\n{table()}"


def test_the_keys_file_has_every_field() -> None:
    [example] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    [key] = KeysFile.model_validate(tomllib.loads(example)).keys
    assert key.model_fields_set == set(Key.model_fields)


def test_every_endpoint_and_setting_is_named() -> None:
    for path in describe(GatewaySettings()).openapi()["paths"]:
        assert re.sub(r"/\{.*", "", path) in TEXT, path
    named = set(re.findall(r"BUSLOAD_GATEWAY_([A-Z_]+)", TEXT))
    assert {name.lower() for name in named} == set(GatewaySettings.model_fields)


def test_no_parameter_is_said_to_be_both() -> None:
    assert not IGNORED & set(NEUTRAL)

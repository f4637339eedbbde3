"""The documents say what the code does: tables, schemas, links and names in them are checked against it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import ops.settings_table
import ops.write_schemas
import pytest
from pydantic import ValidationError

import busload_worker.__main__ as worker_main
from busload.gateway.settings import PREFIX as GATEWAY_PREFIX
from busload.gateway.settings import GatewaySettings
from busload_shared.keys import Keys
from busload_shared.request import Request
from busload_shared.result import (
    BatchInfo,
    ErrorCode,
    Output,
    Proof,
    Result,
    Status,
    Timing,
    TokenLogprob,
    Trigger,
    Usage,
)
from busload_worker.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
README, PROTOCOL, INTERNALS = ROOT / "README.md", ROOT / "docs" / "protocol.md", ROOT / "docs" / "internals.md"
REDIS = ROOT / "docs" / "redis.md"
CLI = ROOT / "docs" / "cli.md"
SECURITY, RELIABILITY = ROOT / "docs" / "security.md", ROOT / "docs" / "reliability.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("producer", "shared", "worker", "tests", "ops", "docs")

FORBIDDEN = {
    r"\b(DESIGN|CASES|STYLE|ENGINE)\.md\b": "not in the project",
    r"(?<![\w/-])#\d+": "a number without its repository means nothing to a reader",
    r"(?i)\b(blazing|lightning|seamless|effortless|powerful|robust|cutting.edge|state.of.the.art|world.class)": "boast",
}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def section(page: Path, title: str) -> str:
    """The page's text from one heading to the next of its rank or higher."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no section {title!r}"
    return found.group(2)


def first_column(text: str) -> list[str]:
    """Each name in backticks of the tables' first column."""
    cells = re.findall(r"^\| ([^|]*?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_table_of_settings_is_up_to_date() -> None:
    text = text_of(README)
    assert ops.settings_table.updated(text) == text, "run: python ops/settings_table.py --write"


def test_the_published_schemas_are_up_to_date() -> None:
    for path, text in ops.write_schemas.files().items():
        assert path.read_text(encoding="utf-8") == text, "run: python ops/write_schemas.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if not re.match(r"https?://", target):
            path, _, anchor = target.partition("#")
            linked = (page.parent / path) if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_is_named_exists(page: Path) -> None:
    here = [str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    here += [path.name for path in ROOT.iterdir()]
    for name in re.findall(r"`([\w./-]+\.(?:py|lua|md|toml|yml|conf|json))`", text_of(page)):
        drawer = name in {"utils.py", "helpers.py", "base.py"}
        assert drawer or any(f"/{path}".endswith(f"/{name}") for path in here), f"{page.name} names {name}"


def test_every_test_that_is_named_exists() -> None:
    written = "\n".join(text_of(path) for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text_of(INTERNALS) + text_of(RELIABILITY)))
    assert len(named) > 50
    assert sorted(name for name in named if not re.search(rf"def {name}\(", written)) == []


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.values())
def test_no_forbidden_word(pattern: str) -> None:
    found = [f"{page.name}: {match.group()}" for page in PAGES for match in re.finditer(pattern, text_of(page))]
    assert found == [], FORBIDDEN[pattern]


def test_the_table_of_request_fields_is_complete_with_their_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", section(PROTOCOL, "Request"), re.MULTILINE)
    stated = dict(rows)
    assert set(stated) == set(Request.model_fields)
    for name, field in Request.model_fields.items():
        default = "required" if field.is_required() else field.get_default()
        words = {None: "none", "required": "required"}.get(default) if not isinstance(default, tuple) else "`[]`"
        assert stated[name] == (words or f"`{json.dumps(default)}`"), name


def test_the_tables_of_result_fields_and_codes_are_complete() -> None:
    text = section(PROTOCOL, "Result")
    named = set(first_column(text))
    inner = {name for part in (BatchInfo, Output, Proof, TokenLogprob, Usage) for name in part.model_fields}
    assert set(Result.model_fields) | set(Timing.model_fields) <= named
    assert set(get_args(Status)) | set(get_args(ErrorCode)) <= named
    assert {name for name in inner | set(get_args(Trigger)) if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("page", [PROTOCOL, INTERNALS], ids=lambda page: page.name)
def test_the_tables_of_keys_are_complete(page: Path) -> None:
    keys = Keys("L")
    made = {keys.queue, keys.retry, keys.inflight, keys.leases, keys.batches, keys.dead, keys.workers, keys.stats}
    made |= {keys.result("<id>"), keys.state("<id>"), keys.cancel("<id>"), keys.worker("<name>")}
    assert made <= set(first_column(section(page, "Keys")))


def test_the_example_of_a_request_is_one() -> None:
    found = re.findall(r"^<!-- request -->\n```json\n(.*?)^```$", text_of(PROTOCOL), re.MULTILINE | re.DOTALL)
    assert found
    for example in found:
        Request.model_validate_json(example)
        jsonschema.validate(json.loads(example), published("request"))


def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(text_of(ROOT / "docs" / "schema" / f"{name}.json"))
    return schema


VALID: list[dict[str, Any]] = [
    {"id": "1", "prompt": "x"},
    {"id": "1", "prompt": "x", "messages": None, "deadline": None, "seed": -(2**63)},
    {"id": "ü-1", "prompt_token_ids": [1, 2], "ttl_s": 0.5, "stop": ["a"], "n": 2},
    {"id": "1", "messages": [{"role": "user", "content": ""}], "json_schema": {"type": "object"}},
]
INVALID: list[dict[str, Any]] = [
    {"prompt": "no id"},
    {"id": "1"},
    {"id": "a b", "prompt": "x"},
    {"id": "a\x7f", "prompt": "x"},
    {"id": "1", "prompt": "x", "prompt_token_ids": [1]},
    {"id": "1", "prompt": "x", "max_token": 8},
    {"id": "1", "prompt": "x", "max_tokens": 0},
    {"id": "1", "prompt": "x", "max_tokens": "8"},
    {"id": "1", "prompt": "x", "deadline": 1.0, "ttl_s": 1.0},
    {"id": "1", "prompt": "x", "regex": "a", "choice": ["a"]},
    {"id": "1", "prompt": "x", "v": 2},
    {"id": "1", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
]


@pytest.mark.parametrize("body", VALID, ids=str)
def test_the_published_schema_takes_what_the_model_takes(body: dict[str, Any]) -> None:
    Request.model_validate_json(json.dumps(body))
    jsonschema.validate(body, published("request"))


@pytest.mark.parametrize("body", INVALID, ids=str)
def test_the_published_schema_refuses_what_the_model_refuses(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Request.model_validate_json(json.dumps(body))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, published("request"))


OTHER_VARIABLES = {"BUSLOAD_SETTINGS_FILE", "BUSLOAD_EXPORTER_HOST", "BUSLOAD_EXPORTER_PORT"} | set(
    re.findall(r"\$\{(BUSLOAD_\w+)", text_of(ROOT / "docker-compose.yml"))
)
"""What is no field of Settings: the file's name, what only the compose file reads, and the exporter's."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_that_is_named_is_a_setting(page: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | OTHER_VARIABLES
    known |= {GATEWAY_PREFIX + name.upper() for name in GatewaySettings.model_fields}
    named = {name for name in re.findall(r"BUSLOAD_[A-Z_]+", text_of(page)) if not name.startswith("BUSLOAD_VLLM_")}
    assert named - known == set()


def test_the_exit_codes_are_those_of_the_worker() -> None:
    stated = {int(code) for code in re.findall(r"^\| (\d+) \|", section(README, "Exit codes"), re.MULTILINE)}
    known = {value for name, value in vars(worker_main).items() if name.isupper() and type(value) is int}
    assert stated == known

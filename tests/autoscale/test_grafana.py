"""Dashboards ask for series and labels that exist, show every documented one, and read well."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "ops" / "grafana"
BOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (GRAFANA / "dashboards").glob("*.json")}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def documented() -> dict[str, tuple[str, dict[str, set[str]]]]:
    """Each series of docs/metrics.md: its type, and its labels with the values that are stated."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(busload_\w+)` \| (\w+) \| ([^|]*) \|", text, re.MULTILINE)
    found = {}
    for name, kind, labels in rows:
        parts = (part.partition(":") for part in labels.split(",") if part.strip())
        found[name] = (kind, {label.strip(" `"): set(re.findall(r"`([^`]+)`", values)) for label, _, values in parts})
    return found


SERIES = documented()


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in board["panels"] if panel["type"] != "row")


def expressions(board: dict[str, Any]) -> Iterator[str]:
    for panel in panels(board):
        yield from (target["expr"] for target in panel["targets"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def base_name(name: str) -> str:
    """A histogram's series go by one name."""
    for part in HISTOGRAM_PARTS:
        plain = name.removesuffix(part)
        if plain != name and SERIES.get(plain, ("",))[0] == "histogram":
            return plain
    return name


def asked(expression: str) -> Iterator[tuple[str, str]]:
    """Each series of an expression, with what stands in its braces."""
    yield from re.findall(r"\b(busload_\w+)(?:\{([^}]*)\})?", expression)


def test_there_are_an_overview_and_one_for_a_queue() -> None:
    assert sorted(BOARDS) == ["overview", "queue"]
    assert len(SERIES) > 40


@pytest.mark.parametrize("name", BOARDS)
def test_every_series_is_documented(name: str) -> None:
    found = {base_name(series) for expression in expressions(BOARDS[name]) for series, _ in asked(expression)}
    assert found - set(SERIES) == set()


@pytest.mark.parametrize("name", BOARDS)
def test_labels_and_their_values_are_those_of_the_series(name: str) -> None:
    for expression in expressions(BOARDS[name]):
        for series, matchers in asked(expression):
            labels = SERIES[base_name(series)][1]
            for label, value in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
                assert label in labels, f"{series} has no {label}"
                if not value.startswith("$"):
                    assert set(value.split("|")) <= labels[label], f"{series} has no {label}={value}"


@pytest.mark.parametrize("name", BOARDS)
def test_what_counts_up_is_shown_as_a_rate_and_what_does_not_is_not(name: str) -> None:
    for expression in expressions(BOARDS[name]):
        for series, _ in asked(expression):
            kind = SERIES[base_name(series)][0]
            in_rate = re.search(rf"(?:rate|increase)\({series}\b", expression) is not None
            assert in_rate == (kind in ("counter", "histogram")), expression


def test_every_documented_series_is_on_one_of_them() -> None:
    shown = {base_name(series) for board in BOARDS.values() for expression in expressions(board)
             for series, _ in asked(expression)}  # fmt: skip
    assert set(SERIES) - shown == set()


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_titles_units_and_places_of_their_own(name: str) -> None:
    board, places = BOARDS[name], set()
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places, f"{panel['title']} lies on another"
        assert at["x"] + at["w"] <= 24
        places |= cells
    for panel in panels(board):
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert not re.search(r"busload_|p\d\d\b|_", panel["title"]), "titles are plain words"
        assert all(expr["datasource"]["uid"] == "${datasource}" for expr in panel["targets"])


@pytest.mark.parametrize("name", BOARDS)
def test_the_queue_is_a_variable_and_used_by_all_that_has_one(name: str) -> None:
    board = BOARDS[name]
    assert "queue" in {variable["name"] for variable in board["templating"]["list"]}
    for panel in panels(board):
        for target in panel["targets"]:
            for series, matchers in asked(target["expr"]):
                assert "queue" not in SERIES[base_name(series)][1] or "$queue" in matchers, target["expr"]


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool comes with Prometheus: apt-get install prometheus")
def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    asked_for = {
        expression.replace("$__rate_interval", "5m").replace("$queue", "busload:default")
        for board in BOARDS.values()
        for panel in panels(board)
        for expression in (target["expr"] for target in panel["targets"])
    }
    rules = [{"record": f"x:{number}", "expr": expression} for number, expression in enumerate(sorted(asked_for))]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}), encoding="utf-8")
    checked = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_boards_link_to_each_other_by_uids_that_exist() -> None:
    uids = {board["uid"] for board in BOARDS.values()}
    for board in BOARDS.values():
        linked = set(re.findall(r"/d/([\w-]+)", json.dumps(board)))
        assert linked
        assert linked <= uids


def test_provisioning_finds_the_boards_and_prometheus() -> None:
    source = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))
    assert [one["type"] for one in source["datasources"]] == ["prometheus"]
    boards = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "busload.yml").read_text(encoding="utf-8"))
    assert [one["options"]["path"] for one in boards["providers"]] == ["/var/lib/grafana/dashboards"]

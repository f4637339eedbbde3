"""The page of metrics, the rules, the alerts and the runbook speak of what exists, and of all of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ops.metrics_table
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from tests.conftest import missing

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "ops" / "prometheus"
RUNBOOK = ROOT / "ops" / "RUNBOOK.md"
PAGE = ROOT / "docs" / "metrics.md"


def sample_names() -> set[str]:
    """Every name a rule may ask for, as Prometheus stores them."""
    every = [metric for metrics in ops.metrics_table.families().values() for metric in metrics]
    return {sample.name for metric in every for sample in metric.samples}


def rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load((PROMETHEUS / name).read_text()) for name in ("recording.yml", "alerts.yml")]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def test_the_tables_are_those_of_the_registries() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert ops.metrics_table.updated(text) == text, "run: python ops/metrics_table.py --write"


def test_no_name_is_served_twice() -> None:
    every = [metric.name for metrics in ops.metrics_table.families().values() for metric in metrics]
    assert len(every) == len(set(every))


def test_every_series_that_a_page_or_a_rule_names_exists() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in sample_names()}
    told = "\n".join(rule["expr"] for rule in rules()) + (PROMETHEUS / "tests.yml").read_text()
    for text in (told, PAGE.read_text(), RUNBOOK.read_text()):
        named = set(re.findall(r"\bbusload_(?:worker|queue|gateway|redis)_\w+", text)) - {"busload_worker_"}
        short = {name for name in named if f"{name}_total" in families}
        assert named - sample_names() - families - short == set()
        assert set(re.findall(r"\bbusload:[a-z_]+:\w+", text)) - recorded == set()
    assert not re.search(r"\bbusload_\w+", "\n".join(recorded))


def test_every_recording_rule_is_unit_tested() -> None:
    tested = (PROMETHEUS / "tests.yml").read_text()
    used = "\n".join(rule["expr"] for rule in alerts().values())
    for rule in rules():
        assert "record" not in rule or rule["record"] in tested + used, rule


def test_every_alert_is_unit_tested_has_a_severity_and_its_entry_in_the_runbook() -> None:
    runbook, tested = RUNBOOK.read_text(encoding="utf-8"), (PROMETHEUS / "tests.yml").read_text()
    entries = dict(re.findall(r"^## (Busload\w+)\n(.*?)(?=^## |\Z)", runbook, re.MULTILINE | re.DOTALL))
    assert set(entries) == set(alerts())
    for name, alert in alerts().items():
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["runbook"] == f"ops/RUNBOOK.md#{name.lower()}"
        assert f"alertname: {name}\n" in tested, "it must fire in a test"
        assert f"alertname: {name}, exp_alerts: []" in tested or "absent(" in alert["expr"], "and be silent in one"
        for part in ("**Symptom.**", "**Command.**", "meaning | action |"):
            assert part in entries[name], f"{name} has no {part}"


def test_the_links_and_settings_of_the_runbook_exist() -> None:
    text = RUNBOOK.read_text(encoding="utf-8")
    titles = {title.lower() for title in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        assert (RUNBOOK.parent / path).exists()
        assert path or anchor in titles, target
    known = {
        ops.metrics_table.Settings.model_config["env_prefix"] + name.upper()
        for name in ops.metrics_table.Settings.model_fields
    }
    named = {name for name in re.findall(r"BUSLOAD_[A-Z_]+", text) if not name.startswith("BUSLOAD_VLLM_")}
    assert named - known == set()


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        missing("promtool", "apt-get install prometheus")
    return found


def said(*command: str, given: bytes | None = None) -> str:
    ended = subprocess.run(command, input=given, capture_output=True, cwd=PROMETHEUS, timeout=120, check=False)
    output = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, output
    return output


def test_prometheus_takes_the_configuration_and_the_rules(promtool: str) -> None:
    said(promtool, "check", "config", "prometheus.yml")
    said(promtool, "check", "rules", "recording.yml", "alerts.yml")


def test_the_rules_pass_their_unit_tests(promtool: str) -> None:
    assert "SUCCESS" in said(promtool, "test", "rules", "tests.yml")


class _These(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


@pytest.mark.parametrize("server", ["worker", "exporter", "gateway"])
def test_the_linter_finds_nothing_in_the_series(promtool: str, server: str) -> None:
    registry = CollectorRegistry()
    registry.register(_These(ops.metrics_table.families()[server]))
    assert said(promtool, "check", "metrics", given=generate_latest(registry)) == ""

"""Prometheus in the cluster finds and reaches every port of metrics, and nobody else does."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import yaml
from tests.autoscale.manifests import FOLDER, Document, documents, labels_of, of_kind, ports_of, selects, workloads
from tests.conftest import missing

ROOT = FOLDER.parents[1]


def metered() -> dict[str, int]:
    """Each workload that serves metrics, and on which port."""
    ports = {name: ports_of(workload) for name, workload in workloads().items()}
    return {name: found["metrics"] for name, found in ports.items() if "metrics" in found}


def test_prometheus_reaches_every_port_of_metrics_and_nobody_else_does() -> None:
    assert metered() == {"worker": 9107, "exporter": 9108, "gateway": 9109}
    policies = [one["spec"] for one in of_kind("NetworkPolicy").values() if one["spec"]["podSelector"]]
    for name in metered():
        labels = labels_of(workloads()[name])
        rules = [rule for one in policies if selects(one["podSelector"], labels) for rule in one.get("ingress", ())]
        (rule,) = [rule for rule in rules if "metrics" in {port["port"] for port in rule["ports"]}]
        assert rule["ports"] == [{"port": "metrics"}]
        (peer,) = rule["from"]
        assert peer == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_prometheus_finds_every_port_of_metrics_by_its_name() -> None:
    (job,) = scraping()["scrape_configs"]
    (found,) = job["kubernetes_sd_configs"]
    assert found == {"role": "pod", "namespaces": {"names": list(of_kind("Namespace"))}}
    keep, name, _ = job["relabel_configs"]
    assert (keep["regex"], keep["action"]) == ("metrics", "keep")
    label = name["source_labels"][0].removeprefix("__meta_kubernetes_pod_label_")
    assert all(label == re.sub(r"[./]", "_", key) for one in metered() for key in labels_of(workloads()[one]))


def test_prometheus_takes_what_is_said_of_its_jobs(tmp_path: Path) -> None:
    """Debian's Prometheus does not know Kubernetes: what finds the pods is replaced, and read by the test above."""
    if (promtool := shutil.which("promtool")) is None:
        missing("promtool", "apt-get install prometheus")
    config = scraping() | {"rule_files": []}
    config["scrape_configs"][0]["static_configs"] = [{"targets": ["pod:9107"]}]
    del config["scrape_configs"][0]["kubernetes_sd_configs"]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    checked = subprocess.run(
        [promtool, "check", "config", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stderr


def scraping() -> Document:
    """The configuration of a Prometheus in the cluster."""
    (config,) = documents(ROOT / "ops" / "prometheus" / "kubernetes.yml")
    return config

"""The Kubernetes manifests as what they say, read without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "ops" / "kubernetes"
Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """All of one file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def base() -> list[Document]:
    """All that the base's kustomization lists."""
    listed = documents(FOLDER / "base" / "kustomization.yaml")[0]["resources"]
    return [document for name in listed for document in documents(FOLDER / "base" / name)]


def all_files() -> list[Path]:
    return sorted(FOLDER.rglob("*.yaml"))


def of_kind(kind: str) -> dict[str, Document]:
    """The base's documents of a kind, by name."""
    return {document["metadata"]["name"]: document for document in base() if document["kind"] == kind}


def workloads() -> dict[str, Document]:
    """What makes pods, by name."""
    return of_kind("Deployment") | of_kind("StatefulSet")


def pod_of(workload: Document) -> Document:
    pod: Document = workload["spec"]["template"]["spec"]
    return pod


def containers() -> Iterator[tuple[str, Document]]:
    """Each container of the base, with its workload's name."""
    for name, workload in workloads().items():
        for container in pod_of(workload)["containers"]:
            yield name, container


def environment(container: Document) -> dict[str, str | None]:
    """The variables that a container gets; None for those from elsewhere than a ConfigMap."""
    maps = of_kind("ConfigMap")
    found: dict[str, str | None] = {}
    for source in container.get("envFrom", ()):
        found |= maps[source["configMapRef"]["name"]]["data"]
    return found | {one["name"]: one.get("value") for one in container.get("env", ())}


def selects(selector: Document, labels: dict[str, str]) -> bool:
    """As Kubernetes does, for the two forms that are used."""
    wanted = selector.get("matchLabels", {})
    rules = selector.get("matchExpressions", [])
    return wanted.items() <= labels.items() and all(labels.get(rule["key"]) in rule["values"] for rule in rules)


def labels_of(workload: Document) -> dict[str, str]:
    """Of its pods."""
    labels: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels


def ports_of(workload: Document) -> dict[str, int]:
    """Of its containers, by name."""
    return {port["name"]: port["containerPort"] for one in pod_of(workload)["containers"] for port in one["ports"]}

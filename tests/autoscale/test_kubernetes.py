"""The manifests fit each other and the code: labels, ports, settings, secrets, times, rights."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.autoscale.manifests import (
    FOLDER,
    Document,
    all_files,
    base,
    containers,
    documents,
    environment,
    labels_of,
    of_kind,
    pod_of,
    ports_of,
    selects,
    workloads,
)

from busload.gateway.settings import PREFIX as GATEWAY_PREFIX
from busload.gateway.settings import GatewaySettings, read_settings
from busload.metrics.settings import read_settings as read_exporter_settings
from busload_worker.settings import PREFIX, Settings

ROOT = FOLDER.parents[1]
SPARE_S = 15
"""After a drain: to write results, hand rows back and end the engine."""


def selected(selector: Document) -> list[Document]:
    return [workload for workload in workloads().values() if selects(selector, labels_of(workload))]


def test_each_file_is_yaml_and_the_base_lists_all_of_its_own() -> None:
    for path in all_files():
        assert documents(path), path
    listed = documents(FOLDER / "base" / "kustomization.yaml")[0]["resources"]
    assert {*listed, "kustomization.yaml"} == {path.name for path in (FOLDER / "base").iterdir()}


def test_names_are_unique() -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in base()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", workloads())
def test_a_workload_selects_its_own_pods_and_no_others(name: str) -> None:
    selector = workloads()[name]["spec"]["selector"]
    assert [one["metadata"]["name"] for one in selected(selector)] == [name]


@pytest.mark.parametrize("name", of_kind("Service"))
def test_a_service_leads_to_a_port_that_is_there(name: str) -> None:
    service = of_kind("Service")[name]["spec"]
    found = selected({"matchLabels": service["selector"]})
    assert len(found) == 1
    assert {port["targetPort"] for port in service["ports"]} <= set(ports_of(found[0]))


@pytest.mark.parametrize("name", of_kind("PodDisruptionBudget"))
def test_a_budget_is_for_one_workload_and_lets_pods_go(name: str) -> None:
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    (workload,) = selected(budget["selector"])
    assert budget.get("maxUnavailable") == 1 or budget["minAvailable"] < workload["spec"]["replicas"]


@pytest.mark.parametrize("name", of_kind("NetworkPolicy"))
def test_a_policy_names_pods_and_ports_that_are_there(name: str) -> None:
    policy = of_kind("NetworkPolicy")[name]["spec"]
    found = selected(policy["podSelector"])
    assert found
    for rule in policy.get("ingress", ()):
        for workload in found:
            assert {port["port"] for port in rule["ports"]} <= set(ports_of(workload))
        for peer in rule["from"]:
            assert "podSelector" not in peer or selected(peer["podSelector"])


def test_whoever_speaks_to_redis_may_reach_it() -> None:
    peers = of_kind("NetworkPolicy")["redis"]["spec"]["ingress"][0]["from"]
    speaking = {name for name, one in containers() if any("REDIS_URL" in variable for variable in environment(one))}
    assert speaking == {"worker", "gateway", "exporter"}
    assert all(selects(peers[0]["podSelector"], labels_of(workloads()[name])) for name in speaking)


def test_the_workers_variables_are_settings_and_make_sense() -> None:
    given = environment(dict(containers())["worker"])
    known = {PREFIX + name.upper(): name for name in Settings.model_fields}
    assert set(given) <= set(known)
    values = {known[name]: value for name, value in given.items() if value is not None}
    settings = Settings.model_validate(values)
    assert settings.metrics_port == ports_of(workloads()["worker"])["metrics"]
    probe = dict(containers())["worker"]["readinessProbe"]["exec"]["command"]
    assert probe == ["test", "-e", settings.ready_file]


def test_the_gateways_variables_are_settings_and_make_sense() -> None:
    given = {name: value or "redis://x:6379/0" for name, value in environment(dict(containers())["gateway"]).items()}
    assert all(name.startswith(GATEWAY_PREFIX) for name in given)
    settings: GatewaySettings = read_settings(given)
    ports = ports_of(workloads()["gateway"])
    assert (settings.port, settings.metrics_port) == (ports["http"], ports["metrics"])
    assert settings.metrics_host == settings.host == "0.0.0.0"
    (service,) = of_kind("Service")["gateway"]["spec"]["ports"]
    assert service["targetPort"] == "http", "callers are not led to the metrics"


def test_the_exporters_variables_are_settings() -> None:
    given = environment(dict(containers())["exporter"])
    settings = read_exporter_settings([], {name: value or "redis://x:6379/0" for name, value in given.items()})
    assert settings.port == ports_of(workloads()["exporter"])["metrics"]
    assert set(given) == {"BUSLOAD_REDIS_URL", "BUSLOAD_QUEUE", "BUSLOAD_EXPORTER_HOST", "BUSLOAD_EXPORTER_PORT"}


@pytest.mark.parametrize(("name", "variable"), [("worker", "BUSLOAD_DRAIN_S"), ("gateway", "BUSLOAD_GATEWAY_DRAIN_S")])
def test_a_pod_that_stops_has_the_time_to_drain(name: str, variable: str) -> None:
    container = dict(containers())[name]
    hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    needed_s = int(hook[1]) + int(environment(container)[variable] or 0) + SPARE_S
    assert pod_of(workloads()[name])["terminationGracePeriodSeconds"] >= needed_s


def test_the_gateways_probes_ask_what_it_answers() -> None:
    container = dict(containers())["gateway"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "http"}


@pytest.mark.parametrize("name", workloads())
def test_no_pod_runs_as_root_or_writes_where_it_need_not(name: str) -> None:
    pod = pod_of(workloads()[name])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "variables such as GATEWAY_PORT would look like settings"
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= set(container["resources"])
        assert not container["image"].endswith(":latest")
        assert ":" in container["image"]


def test_workers_run_as_the_user_of_their_image() -> None:
    dockerfile = (ROOT / "ops" / "docker" / "worker.Dockerfile").read_text(encoding="utf-8")
    user = pod_of(workloads()["worker"])["securityContext"]["runAsUser"]
    assert f"--uid {user}" in dockerfile


@pytest.mark.parametrize("name", workloads())
def test_what_is_mounted_is_there(name: str) -> None:
    workload = workloads()[name]
    volumes = {volume["name"] for volume in pod_of(workload).get("volumes", ())}
    volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", ())}
    for container in pod_of(workload)["containers"]:
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
    for volume in pod_of(workload).get("volumes", ()):
        if "configMap" in volume:
            assert volume["configMap"]["name"] in of_kind("ConfigMap")
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in of_kind("PersistentVolumeClaim")


def secret_keys() -> set[tuple[str, str]]:
    """Each key of each secret in the example."""
    return {(one["metadata"]["name"], key) for one in documents(FOLDER / "secret.example.yaml")
            for key in one["stringData"]}  # fmt: skip


def wanted_secrets(node: Any) -> Iterator[tuple[str, str | None]]:
    """Each secret a document asks for, and the key where it names one."""
    if isinstance(node, dict):
        if "secretKeyRef" in node:
            yield node["secretKeyRef"]["name"], node["secretKeyRef"]["key"]
        if "secretName" in node:
            yield node["secretName"], None
        for ref in node.get("secretTargetRef", ()):
            yield ref["name"], ref["key"]
        for value in node.values():
            yield from wanted_secrets(value)
    elif isinstance(node, list):
        for value in node:
            yield from wanted_secrets(value)


def test_every_secret_that_is_asked_for_is_in_the_example_and_the_example_holds_none() -> None:
    known = secret_keys()
    wanted = set(wanted_secrets(base())) | set(wanted_secrets(documents(FOLDER / "keda" / "scaledobject.yaml")))
    assert {name for name, key in wanted if key is None} <= {name for name, _ in known}
    assert {pair for pair in wanted if pair[1] is not None} <= known
    assert {name for name, _ in known} == {name for name, _ in wanted}
    text = (FOLDER / "secret.example.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"redis://\w+:(\w+)@", text)) == {"REPLACE"}


def test_the_file_of_users_has_nothing_that_redis_refuses() -> None:
    users = next(one for one in documents(FOLDER / "secret.example.yaml") if one["metadata"]["name"] == "redis-users")
    lines = users["stringData"]["users.acl"].splitlines()
    assert all(line.startswith(("user ", "REPLACE")) for line in lines)


def settled(text: str) -> set[str]:
    lines = (line.strip() for line in text.splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def test_redis_is_set_up_as_in_compose_and_with_users() -> None:
    here = settled(of_kind("ConfigMap")["redis-config"]["data"]["redis.conf"])
    there = settled((ROOT / "ops" / "redis.conf").read_text(encoding="utf-8"))
    assert here - there == {"aclfile /etc/busload-users/users.acl"}
    assert there - here == set()


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl renders what is tested above by parts")
@pytest.mark.parametrize("name", ["base", "keda"])
def test_kustomize_renders_it(name: str, tmp_path: Path) -> None:
    made = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert made.returncode == 0, made.stderr
    rendered = tmp_path / "all.yaml"
    rendered.write_text(made.stdout, encoding="utf-8")
    found = documents(rendered)
    assert {one["metadata"].get("namespace") for one in found if one["kind"] != "Namespace"} == {"busload"}
    worker = next(one for one in found if one["kind"] == "Deployment" and one["metadata"]["name"] == "worker")
    assert ("replicas" in worker["spec"]) == (name == "base"), "KEDA's number must not be set back"


def test_kubernetes_own_schemas_take_it() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for document in [*base(), *documents(FOLDER / "secret.example.yaml")]:
        validator.validate(document, "1.29", strict=True)

"""The compose file, its example of settings, its users and its guide agree with each other and with the code."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ops.redis.make_users import acl_file, template_for, user_of

from busload.gateway.settings import PREFIX as GATEWAY_PREFIX
from busload.gateway.settings import GatewaySettings
from busload.gateway.settings import read_settings as read_gateway_settings
from busload.metrics.settings import read_settings as read_exporter_settings
from busload_worker.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PASSWORDS = {"worker": "w" * 16, "gateway": "g-_0" * 6, "producer": "P" * 40, "analyst": "a" * 16, "operator": "o" * 17}


def filled(text: object) -> str:
    """A value as Compose makes it where nothing is set."""
    return re.sub(r"\$\{\w+(?::-([^}]*))?\}", lambda found: found.group(1) or "", str(text))


def variables(service: str) -> dict[str, str]:
    """What a container is given where nothing is set."""
    return {name: filled(value) for name, value in SERVICES[service]["environment"].items() if value is not None}


def test_a_worker_gets_every_setting() -> None:
    own = {"worker_name", "log_format", "vllm"}  # made in the container, set in the image, one line for each option
    wanted = {PREFIX + name.upper() for name in Settings.model_fields if name not in own} | {"BUSLOAD_SETTINGS_FILE"}
    for service in ("worker", "worker-gpu"):
        assert wanted <= set(SERVICES[service]["environment"]), service


def test_the_gateway_gets_every_setting() -> None:
    assert {GATEWAY_PREFIX + name.upper() for name in GatewaySettings.model_fields} <= set(
        SERVICES["gateway"]["environment"]
    )


def test_what_is_given_without_a_setting_makes_sense() -> None:
    read_gateway_settings(variables("gateway"))
    assert read_exporter_settings([], variables("exporter")).port == 9108
    given = {name.removeprefix(PREFIX).lower(): value for name, value in variables("worker").items()}
    worker = Settings.model_validate({name: given[name] for name in given if name in Settings.model_fields})
    assert worker.metrics_port == 9107


def test_prometheus_asks_where_metrics_are_served() -> None:
    jobs = yaml.safe_load((ROOT / "ops" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))[
        "scrape_configs"
    ]
    asked = {}
    for job in jobs:
        for found in job.get("dns_sd_configs", ()):
            asked |= dict.fromkeys(found["names"], found["port"])
        for found in job.get("static_configs", ()):
            asked |= {name: int(port) for name, port in (target.split(":") for target in found["targets"])}
    assert asked == {
        "worker": int(variables("worker")["BUSLOAD_METRICS_PORT"]),
        "exporter": int(variables("exporter")["BUSLOAD_EXPORTER_PORT"]),
        "gateway": int(variables("gateway")["BUSLOAD_GATEWAY_METRICS_PORT"]),
    }
    assert SERVICES["worker-gpu"]["networks"]["default"]["aliases"] == ["worker"]


@pytest.mark.parametrize("service", ["worker", "worker-gpu", "gateway"])
def test_a_container_that_stops_has_the_time_to_drain(service: str) -> None:
    grace_s = int(filled(SERVICES[service]["stop_grace_period"]).removesuffix("s"))
    drain_s = max(Settings.model_fields["drain_s"].default, GatewaySettings.model_fields["drain_s"].default)
    assert grace_s >= drain_s + 15


def test_every_port_is_on_loopback_and_every_image_has_a_version() -> None:
    for name, service in SERVICES.items():
        assert all(filled(port).startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert re.search(r":v?\d[\w.-]*$", filled(service["image"])), name
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert set(re.findall(r"BUSLOAD_TAG:-([^}]+)\}", TEXT)) == {version.group(1)}


def test_the_images_that_stand_in_for_others_have_their_names() -> None:
    made = set(re.findall(r"^[A-Z]+=([\w./-]+:[\w.-]+)$", (ROOT / "ops/docker/stand_ins.sh").read_text(), re.MULTILINE))
    bases = set(re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", dockerfiles(), re.MULTILINE))
    pulled = {service["image"] for name, service in SERVICES.items() if name in ("redis", "prometheus")}
    assert made == bases | pulled
    assert bases == set(re.findall(r"PYTHON_IMAGE:-([^}]+)\}", TEXT))
    assert set(re.findall(r"^ARG VLLM_IMAGE=(\S+)$", dockerfiles(), re.MULTILINE)) == set(
        re.findall(r"VLLM_IMAGE:-([^}]+)\}", TEXT)
    )


def dockerfiles() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "ops/docker").glob("*.Dockerfile")))


def defaults() -> dict[str, str]:
    """What the compose file says of each variable that it reads with a default."""
    return dict(re.findall(r"\$\{(\w+):-([^}]*)\}", TEXT))


def test_the_example_of_settings_names_what_the_compose_file_reads_and_its_defaults() -> None:
    read = set(re.findall(r"\$\{(\w+)", TEXT)) | set(re.findall(r"^ +([A-Z][A-Z_]+):\s*$", TEXT, re.MULTILINE))
    own = {"COMPOSE_PROFILES"}
    examples = {
        "BUSLOAD_MODEL",
        "BUSLOAD_MODEL_FOLDER",
        "BUSLOAD_SETTINGS_FOLDER",
        "BUSLOAD_KEYS_FOLDER",
        "BUSLOAD_IMAGES",
    }
    fields = {PREFIX + name.upper(): field for name, field in Settings.model_fields.items()}
    fields |= {GATEWAY_PREFIX + name.upper(): field for name, field in GatewaySettings.model_fields.items()}
    for name, value in re.findall(r"^(?:# )?([A-Z][A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE):
        assert name in read | own, name
        if name in defaults() and name not in examples:
            assert value == defaults()[name], name
        elif name in fields and fields[name].default not in ("", ()) and name != "BUSLOAD_ENGINE":
            assert value.lower() == f"{fields[name].default}".lower(), name
    passwords = {name for name in defaults() if "PASSWORD" in name}
    assert passwords <= set(re.findall(r"^# ([A-Z_]+)=", EXAMPLE, re.MULTILINE))


def test_the_guide_tells_of_every_service_profile_volume_and_port() -> None:
    table = GUIDE[GUIDE.index("## What runs") : GUIDE.index("## Settings")]
    assert set(SERVICES) <= set(re.findall(r"`([\w-]+)`", table))
    for name, service in SERVICES.items():
        (row,) = [line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1]]
        assert {f"`{profile}`" for profile in service.get("profiles", ())} <= set(re.findall(r"`[\w-]+`", row)), name
        for port in service.get("ports", ()):
            assert filled(port).split(":")[1] in row, name
    assert {f"`{name}`" for name in COMPOSE["volumes"]} <= set(re.findall(r"`[\w-]+`", GUIDE))
    read = set(re.findall(r"\b[A-Z][A-Z_]+\b", TEXT + dockerfiles()))
    named = {name for name in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", GUIDE)}
    assert named - read == {"HTTP_PROXY", "CUDA_VISIBLE_DEVICES", "COMPOSE_PROFILES"}


def started(**environment: str) -> subprocess.CompletedProcess[str]:
    """The users that the compose file's Redis starts with."""
    given = {f"REDIS_PASSWORD_{name.upper()}": password for name, password in PASSWORDS.items()}
    given |= {"PATH": os.environ["PATH"], "REDIS_PASSWORD_CELERY": "c" * 16, **environment}
    command = ["sh", str(ROOT / "ops/redis/start.sh"), "--users-only"]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("queue", ["busload:default", "a*b?[c]\\d&$QUEUE"])
def test_redis_starts_with_the_users_that_make_users_would_write(queue: str, partitions: int) -> None:
    roles = {"gateway": "producer"}
    secrets = {f"{name.upper()}_PASSWORD": password for name, password in PASSWORDS.items()}
    users = [user_of(f"{name}={roles.get(name, name)}", queue, secrets) for name in PASSWORDS]
    lines = started(BUSLOAD_QUEUE=queue, BUSLOAD_PARTITIONS=str(partitions)).stdout.splitlines()
    (celery,) = [line for line in lines if line.startswith("user celery ")]
    wanted = acl_file(users, template_for("7"), partitions=partitions > 1).splitlines()
    assert sorted(set(lines) - {celery}) == sorted(wanted)
    assert "+subscribe" in celery
    assert "$" not in celery.replace("$QUEUE", "" if "$QUEUE" in queue else "$QUEUE")


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"REDIS_PASSWORD_WORKER": "short"}, "the password of worker is too short"),
        ({"REDIS_PASSWORD_CELERY": "with space and more"}, "letters, digits, - and _ only"),
        ({"BUSLOAD_QUEUE": "a b"}, "no white space"),
    ],
)
def test_redis_does_not_start_with_users_that_cannot_work(environment: dict[str, str], complaint: str) -> None:
    done = started(**environment)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stdout == ""

"""What the images are: unprivileged, labelled, watched, small, and free of secrets."""

from __future__ import annotations

import pytest
from tests.compose.stack import ROOT, Stack, tell

pytestmark = pytest.mark.compose

MEGABYTE = 1_000_000
PYTHON_SLIM = 130 * MEGABYTE
"""The official base image; a stand-in for it is larger, so what we add is measured and this is added."""

IMAGES = {"worker": "busload-worker:0.1.0", "gateway": "busload-gateway:0.1.0"}


@pytest.mark.parametrize("service", IMAGES)
def test_an_image_runs_unprivileged_and_says_what_it_is(stack: Stack, service: str) -> None:
    config = stack.inspect(IMAGES[service])["Config"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["Labels"]["org.opencontainers.image.version"] == "0.1.0"


@pytest.mark.parametrize("service", IMAGES)
def test_an_image_holds_no_secret_and_no_address_of_an_index(stack: Stack, service: str) -> None:
    config = stack.inspect(IMAGES[service])["Config"]
    words = ("PASSWORD", "SECRET", "TOKEN", "INDEX", "REDIS_URL")
    assert [text for text in config["Env"] if any(word in text.upper() for word in words)] == []
    history = stack.docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", IMAGES[service])
    assert "://" not in history.replace("http://127.0.0.1:8000", "")


def test_the_light_image_is_small(stack: Stack) -> None:
    base = stack.inspect("python:3.11-slim-bookworm")["Size"]
    added = stack.inspect(IMAGES["gateway"])["Size"] - base
    tell(f"the light image adds {added / MEGABYTE:.0f} MB to its base")
    assert added + PYTHON_SLIM < 250 * MEGABYTE
    worker = stack.inspect(IMAGES["worker"])["Size"] - base
    tell(f"the worker's image adds {worker / MEGABYTE:.0f} MB")


@pytest.mark.parametrize("service", ["redis", "worker", "gateway", "exporter", "prometheus"])
def test_a_container_has_no_rights_it_does_not_need(stack: Stack, service: str) -> None:
    (container, *_) = stack.containers(service)
    host = stack.inspect(container)["HostConfig"]
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert stack.docker("exec", container, "id", "-u").strip() != "0"


def test_the_gpu_target_builds_on_any_base_with_python(stack: Stack) -> None:
    """Without CUDA or vLLM: that the steps work, and that the worker starts and says what is missing."""
    dockerfile = str(ROOT / "ops/docker/worker.Dockerfile")
    pip = [part for name in stack.env if name.startswith("PIP_") for part in ("--build-arg", name)]
    words = ["--target", "gpu", "--build-arg", "VLLM_IMAGE=python:3.11-slim-bookworm", *pip]
    image = f"busload-worker-gpu:{stack.project}"
    stack.docker("build", "-q", *words, "-t", image, "-f", dockerfile, str(ROOT), within_s=600)
    try:
        assert "busload-worker" in stack.docker("run", "--rm", "--read-only", image, "--help")
    finally:
        stack.docker("image", "rm", "-f", image)

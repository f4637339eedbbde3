"""One deployment for all tests of this folder. They run in the order in which they stand, each on what the one before
left, and only for `-m compose` (`make test-compose`): they need a Docker engine, and minutes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest
from tests.compose.asking import Ledger
from tests.compose.stack import Stack, tell

from busload.autoscale.drivers import compose_command

BUILD_S = 1800.0
"""The workers' image is 3 GB that come from a package index."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out of a run that does not ask for them."""
    if "compose" not in config.getoption("markexpr"):
        out = [item for item in items if item.get_closest_marker("compose")]
        if out:
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stack]:
    """The deployment, built and up, with two workers that are ready."""
    env_file = tmp_path_factory.mktemp("compose") / "env"
    env_file.touch()
    stack = Stack(asyncio.run(compose_command()), f"busload-test-{os.getpid()}", env_file)
    try:
        began = time.monotonic()
        tell("building the images; the first time takes minutes")
        stack.compose("build", within_s=BUILD_S)
        tell(f"the images are built, {time.monotonic() - began:.0f} s; starting the deployment")
        stack.compose("up", "-d", "--scale", "worker=2", within_s=300)
        stack.await_workers(2)
        tell("two workers are ready")
        yield stack
    finally:
        if request.session.testsfailed:
            for service in ("redis", "worker", "gateway"):
                tell(stack.logs(service))
        tell("removing the deployment")
        stack.remove()


@pytest.fixture(scope="session")
def ledger(stack: Stack) -> Ledger:
    """What was asked of the deployment since it came up."""
    return Ledger(stack)


@pytest.fixture(autouse=True)
def _progress(request: pytest.FixtureRequest) -> Iterator[None]:
    began = time.monotonic()
    yield
    tell(f"{request.node.name}: {time.monotonic() - began:.0f} s")

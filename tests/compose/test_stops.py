"""How the deployment ends. It is the last file of its folder."""

from __future__ import annotations

import time

import pytest
from tests.compose.stack import Stack

pytestmark = pytest.mark.compose


@pytest.mark.parametrize("service", ["worker", "gateway", "exporter", "celery-worker", "celery-beat"])
def test_a_stop_is_heard_by_the_process_itself(stack: Stack, service: str) -> None:
    (container, *_) = stack.containers(service)
    began = time.monotonic()
    stack.docker("stop", "-t", "40", container)
    assert time.monotonic() - began < 30
    assert stack.inspect(container)["State"]["ExitCode"] == 0

"""Compose, both versions, is told what it should be told. Stand-ins write down their calls."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest
from tests.autoscale.stub_compose import StubBin
from tests.waiting import wait_until

from busload.autoscale.drivers import ComposeDriver, ScalingFailed, compose_command
from busload_shared.errors import SettingsInvalid


async def test_version_2_is_preferred(stub_bin: StubBin) -> None:
    stub_bin.add("docker")
    stub_bin.add("docker-compose")
    assert await compose_command() == ["docker", "compose"]


async def test_version_1_will_do(stub_bin: StubBin) -> None:
    stub_bin.add("docker", "exit 1")  # it knows no compose
    stub_bin.add("docker-compose")
    assert await compose_command() == ["docker-compose"]


async def test_without_compose_it_says_what_to_install(stub_bin: StubBin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(stub_bin.folder))
    with pytest.raises(SettingsInvalid, match="install Docker Compose, or use --driver print"):
        await compose_command()


@pytest.mark.parametrize("command", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
async def test_it_scales_the_service_and_leaves_other_containers_alone(stub_bin: StubBin, command: list[str]) -> None:
    stub_bin.add(command[0])
    await ComposeDriver(command, service="worker", files=[]).scale(3)
    assert stub_bin.calls == [f"{' '.join(command)} up -d --no-deps --no-recreate --scale worker=3 worker"]


async def test_files_and_service_are_handed_on(stub_bin: StubBin) -> None:
    stub_bin.add("docker")
    await ComposeDriver(["docker", "compose"], service="gpu", files=["a.yml", "b.yml"]).scale(0)
    expected = "docker compose -f a.yml -f b.yml up -d --no-deps --no-recreate --scale gpu=0 gpu"
    assert stub_bin.calls == [expected]


async def test_a_failure_is_told_with_what_compose_said(stub_bin: StubBin) -> None:
    stub_bin.add("docker", "echo noise >&2; echo 'no such service: worker' >&2; exit 14")
    with pytest.raises(ScalingFailed, match="ended with 14 and said: no such service: worker"):
        await ComposeDriver(["docker", "compose"], service="worker", files=[]).scale(2)


async def test_a_call_that_is_broken_off_leaves_no_process(stub_bin: StubBin) -> None:
    stub_bin.add("docker", f"echo $$ > {stub_bin.folder}/pid; exec sleep 600")
    scaling = asyncio.create_task(ComposeDriver(["docker", "compose"], service="worker", files=[]).scale(2))
    pid_file = stub_bin.folder / "pid"

    async def started() -> bool:
        return pid_file.exists() and pid_file.read_text().strip() != ""

    await wait_until(started, what="the stand-in runs")
    pid = int(pid_file.read_text())
    scaling.cancel()
    with suppress(asyncio.CancelledError):
        await scaling
    assert scaling.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

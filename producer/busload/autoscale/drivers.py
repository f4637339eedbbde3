"""Who carries a number of workers out."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from busload_shared.errors import BusloadError, SettingsInvalid

LONGEST_S = 900.0
"""A scale-down ends when the last worker has drained, and takes no longer than this."""

_NO_COMPOSE = (
    "neither `docker compose` nor `docker-compose` works here: install Docker Compose, or use --driver print and scale "
    "by other means"
)


class ScalingFailed(BusloadError):
    """Operations must look at what the tool says; it is tried again."""


class Driver(Protocol):
    """Brings the number of workers about."""

    async def scale(self, workers: int) -> None:
        """Return when it is done; doing it again changes nothing. Raises ScalingFailed."""


class PrintDriver:
    """Only tells: whoever reads what the loop prints does it."""

    async def scale(self, workers: int) -> None:
        """Nothing is done."""


class ComposeDriver:
    """`docker compose up -d --scale`. Containers that are there and may stay are not made anew."""

    def __init__(self, command: Sequence[str], *, service: str, files: Sequence[str]) -> None:
        """`command` is as `compose_command` finds it."""
        self._command = [*command, *(word for file in files for word in ("-f", file))]
        self._service = service

    async def scale(self, workers: int) -> None:
        """A container that goes gets SIGTERM and its service's stop_grace_period to drain."""
        words = ["up", "-d", "--no-deps", "--no-recreate", "--scale", f"{self._service}={workers}", self._service]
        code, errors = await _run([*self._command, *words])
        if code:
            last = (errors.strip().splitlines() or ["nothing"])[-1]
            raise ScalingFailed(f"`{' '.join([*self._command, *words])}` ended with {code} and said: {last}")


async def compose_command() -> list[str]:
    """Compose as it is called here, version 2 before version 1. Raises SettingsInvalid when there is none."""
    if shutil.which("docker") and (await _run(["docker", "compose", "version"]))[0] == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise SettingsInvalid(_NO_COMPOSE)


async def _run(command: Sequence[str]) -> tuple[int, str]:
    """Its exit code and what it said on stderr. In a session of its own: a Ctrl-C at the terminal is for us alone."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LONGEST_S):
            _, errors = await process.communicate()
    except TimeoutError:
        return 1, f"no end within {LONGEST_S:g} s"
    finally:
        await _end(process)
    return process.returncode or 0, errors.decode("utf-8", "replace")


async def _end(process: Process) -> None:
    """If it still runs: workers that were told to stop drain all the same."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

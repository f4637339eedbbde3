"""An older version of the worker, to mix with this one."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from redis.asyncio import Redis
from tests.chaos.fleet import settings_of
from tests.chaos.launching import ROOT
from tests.chaos.options import Options
from tests.chaos.proxy import Proxy
from tests.chaos.worker_process import ChaosWorker

from busload import AsyncClient, BusloadError

PROBE = "busload:probe"
ANSWERS_S = 20.0


async def older_code(options: Options, folder: Path, redis_port: int) -> tuple[Path | None, str]:
    """The folder of the older version, or why there is none."""
    if options.old_rev == "-" or options.engine != "fake":
        return None, "not asked for"
    if shutil.which("git") is None:
        return None, "git is not installed here"
    code = folder / "older"
    packed = await asyncio.to_thread(
        subprocess.run, ["git", "archive", options.old_rev], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    if packed.returncode != 0:
        return None, f"git has no {options.old_rev} here"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(code, filter="data")
    if not await _answers(code, options, folder, redis_port):
        return None, f"{options.old_rev} does not answer this version's requests: the two cannot be mixed"
    return code, ""


async def _answers(code: Path, options: Options, folder: Path, redis_port: int) -> bool:
    """Whether a worker of that version answers a request of this version's client."""
    proxy = Proxy(redis_port)
    await proxy.start()
    worker = ChaosWorker("older", folder, proxy, settings_of(options) | {"queue": PROBE})
    worker.code = code
    try:
        await worker.start()
        await worker.came_up(timeout_s=ANSWERS_S)
        async with AsyncClient(proxy.url, queue=PROBE) as client:
            result = await client.generate(prompt="Can you read this?", max_tokens=4, timeout_s=ANSWERS_S)
        return result.status == "succeeded"
    except (BusloadError, RuntimeError):
        return False
    finally:
        await worker.close()
        async with Redis(port=redis_port) as redis:
            await redis.delete(*await redis.keys("*" + PROBE + "*"))
        await proxy.close()

"""Redis servers that keep a log, backups of them, and what comes back from one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.conftest import missing
from tests.redis_servers import Server

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ops" / "redis" / "restore.sh"
LOG = {"appendonly": "yes", "appendfsync": "everysec"}
"""As in ops/redis.conf."""


def redis_cli() -> str:
    """Where it is."""
    found = shutil.which("redis-cli")
    return found or missing("redis-cli", "apt-get install redis-tools")


def dumped(server: Server, file: Path) -> Path:
    """A backup by `redis-cli --rdb`, of one moment."""
    command = [redis_cli(), "-p", str(server.port), "--rdb", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return file


def saved(server: Server, file: Path) -> Path:
    """A backup by BGSAVE and a copy."""
    with server.client() as redis:
        redis.bgsave()
        while redis.info("persistence")["rdb_bgsave_in_progress"]:
            time.sleep(0.02)
    shutil.copy(server.folder / "dump.rdb", file)
    return file


def run_script(binary: Path, backup: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """`ops/redis/restore.sh` with this redis-server."""
    bin_folder = folder.parent / f"{folder.name}-bin"
    bin_folder.mkdir(exist_ok=True)
    for name, target in (("redis-server", binary), ("redis-cli", redis_cli())):
        (bin_folder / name).unlink(missing_ok=True)
        (bin_folder / name).symlink_to(target)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(SCRIPT), str(backup), str(folder)],
        env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def restored(like: Server, binary: Path, backup: Path) -> Server:
    """A new server with a log, started on what the script made of the backup."""
    server = Server(binary, like.version, LOG)
    done = run_script(binary, backup, server.folder)
    assert done.returncode == 0, done.stderr
    server.start()
    return server

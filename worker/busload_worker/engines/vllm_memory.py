"""Whether a full batch fits into the KV cache: vLLM itself finds out when it is too late, and preempts
rows."""

from __future__ import annotations

import gc
import traceback
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from busload_shared.errors import EngineStartFailed

if TYPE_CHECKING:
    from vllm.config import ModelConfig
    from vllm.engine.arg_utils import EngineArgs

GIB = 1024**3

CPU_BLOCK_SIZE = 128
"""Tokens in a KV block where vLLM runs on a CPU and nobody chose."""

_SHARE = 0.6
"""The part of the free memory that the KV cache may take on a CPU: weights and activations need the rest."""


@dataclass(frozen=True, slots=True)
class Need:
    """A full batch's need of KV cache. `seats` is the sequences that run at once."""

    seats: int
    max_model_len: int
    block_size: int

    @property
    def blocks(self) -> int:
        """Blocks that the sequences take when each is as long as it may be."""
        return self.seats * ceil(self.max_model_len / self.block_size)

    @property
    def blocks_with_null(self) -> int:
        """vLLM keeps one block of every cache for itself, and does not say so in its own estimate."""
        return self.blocks + 1


def free_what_it_holds(error: BaseException) -> None:
    """Let go of the failed step's tensors: the error's frames hold them, and torch keeps freed memory for itself."""
    import torch

    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def cpu_kv_bytes(args: EngineArgs, *, overcommit: bool, free_bytes: int) -> int:
    """The KV cache that holds a full batch. Raises EngineStartFailed when that is more than the memory
    allows.

    `overcommit` gives what the memory allows instead.
    """
    model = args.create_model_config()
    need = Need(args.max_num_seqs, model.max_model_len, args.block_size or CPU_BLOCK_SIZE)
    wanted = need.blocks_with_null * need.block_size * token_bytes(model, args)
    allowed = int(free_bytes * _SHARE)
    if wanted <= allowed:
        return wanted
    if overcommit:
        return allowed
    raise EngineStartFailed(
        f"{need.seats} rows of {need.max_model_len} tokens need a KV cache of {wanted / GIB:.1f} GiB, and "
        f"{_SHARE:.0%} of the free memory is {allowed / GIB:.1f} GiB; lower BUSLOAD_MAX_BATCH_SIZE={need.seats} "
        f"or BUSLOAD_VLLM_MAX_MODEL_LEN={need.max_model_len}, or set BUSLOAD_VLLM_KV_CACHE_MEMORY_BYTES and "
        "BUSLOAD_KV_OVERCOMMIT=true if your batches are never that long"
    )


def token_bytes(model: ModelConfig, args: EngineArgs) -> int:
    """Bytes of KV cache for one token in one worker of vLLM."""
    from vllm.config import ParallelConfig

    parallel = ParallelConfig(
        tensor_parallel_size=args.tensor_parallel_size, pipeline_parallel_size=args.pipeline_parallel_size
    )
    width = 1 if str(args.kv_cache_dtype).startswith("fp8") else model.dtype.itemsize
    parts = 1 if model.use_mla else 2
    heads = model.get_num_kv_heads(parallel)
    return int(parts * model.get_num_layers(parallel) * heads * model.get_head_size() * width)


def check_fits(need: Need, *, blocks: int, overcommit: bool) -> int:
    """How many tokens the loaded cache surely holds, however they are spread over a full batch's rows.

    Raises EngineStartFailed when a full batch of the longest rows does not fit and that was not asked for.
    """
    usable = blocks - 1
    if need.blocks <= usable:
        return usable * need.block_size
    if overcommit:
        return max(need.block_size, (usable - need.seats) * need.block_size)
    raise EngineStartFailed(
        f"{need.seats} rows of {need.max_model_len} tokens need {need.blocks} KV blocks of {need.block_size} "
        f"tokens, and the cache has {usable}: a full batch would not stay in memory; lower "
        f"BUSLOAD_MAX_BATCH_SIZE={need.seats} or BUSLOAD_VLLM_MAX_MODEL_LEN={need.max_model_len}, raise "
        "BUSLOAD_VLLM_KV_CACHE_MEMORY_BYTES, or set BUSLOAD_KV_OVERCOMMIT=true if your batches are never that long"
    )


def free_memory_bytes() -> int:
    """What this process may still take: the machine's free memory, or what its container has left."""
    free = _meminfo("MemAvailable")
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None:
        # Page cache counts as used there, and is given back when memory is asked for.
        cache = _memory_stat("inactive_file")
        free = min(free, limit - used + cache)
    return max(0, free)


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _memory_stat(name: str) -> int:
    try:
        lines = Path("/sys/fs/cgroup/memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def _number(path: str) -> int | None:
    """None where there is no such limit."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None

"""What fits into the KV cache at once: vLLM itself finds out when it is too late, and preempts rows."""

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


def cpu_kv_bytes(args: EngineArgs, *, free_bytes: int) -> int:
    """The KV cache that holds a full batch of the longest rows, or what the memory allows. Raises EngineStartFailed
    when that does not hold one such row."""
    model = args.create_model_config()
    need = Need(args.max_num_seqs, model.max_model_len, args.block_size or CPU_BLOCK_SIZE)
    block_bytes = need.block_size * token_bytes(model, args)
    wanted, allowed = need.blocks_with_null * block_bytes, int(free_bytes * _SHARE)
    least = (1 + ceil(need.max_model_len / need.block_size)) * block_bytes
    if least > allowed:
        raise EngineStartFailed(
            f"one row of {need.max_model_len} tokens needs a KV cache of {least / GIB:.1f} GiB, and {_SHARE:.0%} of "
            f"the free memory is {allowed / GIB:.1f} GiB; lower BUSLOAD_VLLM_MAX_MODEL_LEN={need.max_model_len}, "
            "or set BUSLOAD_VLLM_KV_CACHE_MEMORY_BYTES"
        )
    return min(wanted, allowed)


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


@dataclass(frozen=True, slots=True)
class Room:
    """The loaded KV cache: usable blocks, and tokens in a block."""

    blocks: int
    block_size: int

    def blocks_of(self, tokens: int) -> int:
        """The blocks that one sequence of so many tokens takes."""
        return ceil(tokens / self.block_size)

    def tokens(self, need: Need) -> int:
        """How many tokens it surely holds, however they are spread over a batch's rows."""
        if need.blocks <= self.blocks:
            return self.blocks * self.block_size
        return max(self.block_size, (self.blocks - need.seats) * self.block_size)


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

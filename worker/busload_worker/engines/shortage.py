"""Tells that an engine ran out of memory from every other failure, whatever library it happened in."""

from __future__ import annotations

_KINDS = {"MemoryError", "OutOfMemoryError", "OutOfMemory"}
"""Python's own, torch's (by name: nothing of torch is imported for this), and ours."""

_WORDS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "std::bad_alloc",
)
"""What a RuntimeError of torch, of its CPU allocator or of a helper process says when memory is short."""


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether this error says that memory was short, so that fewer rows at once may go through."""
    if _KINDS & {kind.__name__ for kind in type(error).__mro__}:
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)

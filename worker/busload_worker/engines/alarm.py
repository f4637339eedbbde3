"""Says what to do when a batch did not run as one unit."""

from __future__ import annotations

from busload_shared.result import Proof


def alarm(proof: Proof) -> str:
    """What broke, and what operations must change."""
    if proof.preemptions:
        return (
            f"rows were put back {proof.preemptions} times for lack of KV cache and ran again: lower "
            "BUSLOAD_MAX_BATCH_SIZE or BUSLOAD_VLLM_MAX_MODEL_LEN, or raise BUSLOAD_VLLM_KV_CACHE_MEMORY_BYTES"
        )
    if proof.gap_ms is not None and proof.gap_ms < 0:
        return f"the batch began {-proof.gap_ms:.1f} ms before the previous one ended: report this as a bug"
    return (
        f"rows were admitted over {proof.spread_ms:.1f} ms instead of in one step: raise "
        "BUSLOAD_VLLM_MAX_NUM_BATCHED_TOKENS to the prompt tokens of a full batch, or lower BUSLOAD_MAX_BATCH_SIZE"
    )

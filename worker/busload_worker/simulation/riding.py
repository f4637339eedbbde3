"""When each row of a batch ends."""

from __future__ import annotations

from collections.abc import Sequence

from busload_shared.curve import ServiceCurve


def row_ends_ms(curve: ServiceCurve, *, prompt_tokens: int, lengths: Sequence[int]) -> list[float]:
    """ms from the batch's start to the end of each row.

    After the overhead and the pass over all prompts, each step costs a fixed part and a part for each row that still
    runs. So the longest row ends when the curve says that the batch does.
    """
    start = curve.overhead_ms + curve.prompt_ms * prompt_tokens
    step, token = curve.step_ms, curve.token_ms
    ends = [0.0] * len(lengths)
    ended_tokens, running = 0, len(lengths)
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        length = lengths[row]
        ends[row] = start + step * length + token * (ended_tokens + running * length)
        ended_tokens += length
        running -= 1
    return ends

"""Several prompts of one call: their results as if they were one."""

from __future__ import annotations

from collections.abc import Sequence

from busload_shared.result import Result, Usage


def placed(result: Result, place: int, *, id: str, n: int) -> Result:
    """The result of the prompt at `place`, with the call's id and its samples counted through the call: `n` each."""
    outputs = tuple(one.model_copy(update={"index": place * n + one.index}) for one in result.outputs)
    return result.model_copy(update={"id": id, "outputs": outputs})


def joined(results: Sequence[Result], *, id: str, n: int) -> Result:
    """All results of a call, in the order of its prompts: every sample, usage summed, the timing of the last to end."""
    whole = [placed(result, place, id=id, n=n) for place, result in enumerate(results)]
    last = max(whole, key=lambda one: one.timing.finished_ms if one.timing else 0.0)
    outputs = tuple(output for one in whole for output in one.outputs)
    return last.model_copy(update={"outputs": outputs, "usage": used_by(results)})


def used_by(results: Sequence[Result]) -> Usage | None:
    """The sum; None where no result tells any."""
    told = [result.usage for result in results if result.usage is not None]
    if not told:
        return None
    return Usage(
        prompt_tokens=sum(one.prompt_tokens for one in told),
        completion_tokens=sum(one.completion_tokens for one in told),
        total_tokens=sum(one.total_tokens for one in told),
    )

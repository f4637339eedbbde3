"""From a request to vLLM's SamplingParams, and from vLLM's output to ours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast, get_args

from busload_shared.request import Request
from busload_shared.result import FinishReason, Output, TokenLogprob, Usage

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.outputs import CompletionOutput

_PLAIN = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logprobs",
    "ignore_eos",
)

_LOWEST = -9999.0
"""Stands for a probability of 0: JSON has no infinity."""


def sampling_params(request: Request, *, room: int) -> SamplingParams:
    """Fresh each time, for vLLM changes it. `room` is how many tokens still fit after the prompt.

    Raises what vLLM raises on values it refuses. msgspec checks the types, which SamplingParams does not.
    """
    import msgspec
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    most = min(request.max_tokens, room)
    plain: dict[str, Any] = {name: getattr(request, name) for name in _PLAIN}
    plain |= {
        "max_tokens": most,
        "min_tokens": min(request.min_tokens, most),
        "stop": list(request.stop),
        "stop_token_ids": list(request.stop_token_ids),
    }
    shape = _shape(request)
    if shape:
        plain["structured_outputs"] = shape
    params = msgspec.convert(plain, SamplingParams, strict=True)
    params.output_kind = RequestOutputKind.FINAL_ONLY
    return params


def _shape(request: Request) -> dict[str, Any]:
    given = {
        "json": request.json_schema,
        "regex": request.regex,
        "choice": None if request.choice is None else list(request.choice),
        "grammar": request.grammar,
    }
    return {name: value for name, value in given.items() if value is not None}


def failed_reason(result: RequestOutput) -> str | None:
    """What vLLM says of a row that did not end by itself, None for one that did.

    It calls aborted and broken rows finished as well: they must not pass for answers.
    """
    good = set(get_args(FinishReason)) - {"abort", "error"}
    reasons = [str(output.finish_reason) for output in result.outputs]
    return next((reason for reason in reasons if reason not in good), None)


def outputs_of(request: Request, result: RequestOutput) -> tuple[Output, ...]:
    """The samples, by index."""
    return tuple(_output(request, output) for output in sorted(result.outputs, key=lambda output: int(output.index)))


def usage_of(result: RequestOutput) -> Usage:
    prompt = len(result.prompt_token_ids or ())
    completion = sum(len(output.token_ids) for output in result.outputs)
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _output(request: Request, output: CompletionOutput) -> Output:
    return Output(
        index=output.index,
        text=output.text,
        finish_reason=cast("FinishReason", str(output.finish_reason)),
        stop_reason=output.stop_reason,
        token_ids=tuple(map(int, output.token_ids)) if request.return_token_ids else None,
        logprobs=None if request.logprobs is None else tuple(map(_position, output.logprobs or ())),
    )


def _position(position: Any) -> tuple[TokenLogprob, ...]:
    """One token's alternatives; vLLM puts the sampled one first."""
    return tuple(
        TokenLogprob(
            token_id=int(token_id),
            token=found.decoded_token or "",
            logprob=float(found.logprob) if math.isfinite(found.logprob) else _LOWEST,
            rank=found.rank,
        )
        for token_id, found in position.items()
    )

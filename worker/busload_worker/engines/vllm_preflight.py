"""Each row is checked alone, before it joins: what vLLM would refuse inside a batch fails the whole batch
there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from busload_shared.request import Request
from busload_shared.result import ErrorCode

from .protocol import EngineRow, RowRefused
from .vllm_sampling import sampling_params

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.v1.engine.llm_engine import LLMEngine

_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Seat:
    """A row that vLLM will take: its tokens, its parameters, and an id that no other attempt has."""

    row: EngineRow
    request_id: str
    engine_input: Any
    params: SamplingParams
    prompt_tokens: int

    @property
    def index(self) -> int:
        return self.row.index

    @property
    def sequences(self) -> int:
        return int(self.params.n)

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + int(self.params.max_tokens) * self.sequences


class _Refusal(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Preflight:
    """Renders, tokenises and validates rows for one loaded engine. `seats` is the sequences it runs at
    once."""

    def __init__(self, engine: LLMEngine, *, seats: int) -> None:
        from vllm.renderers import ChatParams
        from vllm.renderers.chat_utils import ChatTemplateResolutionError

        self._renderer = engine.renderer
        self._processor = engine.input_processor
        self._tasks = engine.get_supported_tasks()
        self._max_model_len = int(engine.model_config.max_model_len)
        self._vocabulary = int(engine.model_config.get_vocab_size())
        self._seats = seats
        # vLLM's own length check raises without numbers that help; ours comes after.
        self._text = replace(self._renderer.default_cmpl_tok_params, max_total_tokens=None)
        self._chat = replace(self._renderer.default_chat_tok_params, max_total_tokens=None, add_special_tokens=False)
        self._chat_params = ChatParams(chat_template_kwargs={"add_generation_prompt": True, "tokenize": False})
        self._no_template: type[Exception] = ChatTemplateResolutionError
        self._numbers = itertools.count(1)

    def check(self, row: EngineRow) -> Seat | RowRefused:
        """A seat, or why this row has none. Never raises: whatever is odd about a row is that row's."""
        try:
            return self._seat(row)
        except _Refusal as refusal:
            return RowRefused(index=row.index, code=refusal.code, message=str(refusal))
        except Exception as error:
            return refused(row.index, error)

    def _seat(self, row: EngineRow) -> Seat:
        request = row.request
        if request.n > self._seats:
            raise _Refusal(
                "too_heavy",
                f"n={request.n} takes {request.n} seats and a batch has {self._seats}; lower n, or raise the "
                "worker's BUSLOAD_MAX_BATCH_SIZE",
            )
        engine_input = self._render(request)
        tokens = engine_input["prompt_token_ids"]
        room = self._max_model_len - len(tokens)
        if room < 1:
            raise self._too_long(f"{len(tokens)} tokens")
        if tokens and not 0 <= min(tokens) <= max(tokens) < self._vocabulary:
            raise _Refusal("invalid_request", f"prompt_token_ids: this model's ids go from 0 to {self._vocabulary - 1}")
        params = sampling_params(request, room=room)
        request_id = f"{next(self._numbers)}"
        self._processor.process_inputs(request_id, engine_input, params, supported_tasks=self._tasks)
        return Seat(row, request_id, engine_input, params, len(tokens))

    def _render(self, request: Request) -> Any:
        if request.messages is not None:
            return self._render_chat(request)
        if request.prompt is not None:
            self._check_characters(request.prompt)
            prompt: dict[str, Any] = {"prompt": request.prompt}
        else:
            prompt = {"prompt_token_ids": list(request.prompt_token_ids or ())}
        (engine_input,) = self._renderer.render_cmpl([prompt], self._text)
        return engine_input

    def _render_chat(self, request: Request) -> Any:
        turns = [message.model_dump(exclude_none=True) for message in request.messages or ()]
        self._check_characters("".join(turn["content"] for turn in turns))
        try:
            _, (engine_input,) = self._renderer.render_chat([turns], self._chat_params, self._chat)
        except self._no_template:
            raise _Refusal(
                "invalid_request", "this model has no chat template: send prompt instead of messages"
            ) from None
        return engine_input

    def _check_characters(self, text: str) -> None:
        """A text that is too long however it is tokenised is not tokenised: a megabyte takes a second."""
        widest = getattr(self._renderer.get_tokenizer(), "max_chars_per_token", 0)
        if widest and len(text) > widest * self._max_model_len:
            raise self._too_long(f"{len(text)} characters")

    def _too_long(self, length: str) -> _Refusal:
        return _Refusal(
            "prompt_too_long",
            f"the prompt is {length} long; this model takes {self._max_model_len} tokens, at least 1 of them new",
        )


def refused(index: int, error: Exception) -> RowRefused:
    """The row's error as vLLM tells it, cut to a length that a result can carry."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return RowRefused(index=index, code="invalid_request", message=reason[:_REASON_LENGTH])

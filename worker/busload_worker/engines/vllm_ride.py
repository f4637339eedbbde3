"""Runs one set of rows through vLLM as one unit: all board, all are admitted in one step, each gets off
when done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .protocol import BatchDone, BatchStarted, RowDone, RowRefused
from .vllm_preflight import Seat, refused
from .vllm_proof import Witness
from .vllm_sampling import failed_reason, outputs_of, usage_of

if TYPE_CHECKING:
    from vllm import RequestOutput
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.request import Request as VllmRequest

Emit = Callable[[BatchStarted | RowDone | RowRefused | BatchDone], None]

_POLL_S = 0.002


class Ride:
    """One unit on its way. `started` is the batch's start on the monotonic clock."""

    def __init__(
        self,
        engine: LLMEngine,
        witness: Witness,
        *,
        started: float,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._scheduler = engine.engine_core.engine_core.scheduler
        self._witness = witness
        self._started = started
        self._emit = emit
        self._aborted = aborted
        self._tick = tick
        self._riding: dict[str, Seat] = {}
        self._internal: dict[str, str] = {}
        self._sequences: dict[str, str] = {}
        self.completion_tokens = 0

    def run(self, seats: Sequence[Seat], *, grammar_timeout_s: float) -> None:
        """To the end of the last row. Raises what a step of vLLM raises: then the engine must be cleared."""
        for seat in seats:
            self._board(seat)
        self._hold_for_grammars(grammar_timeout_s)
        states = self._engine.output_processor.request_states
        names = self._engine.output_processor.external_req_ids
        self._witness.board(
            {seat.index: [states[name].stats for name in names[key]] for key, seat in self._riding.items()}
        )
        progress = -1
        while self._engine.has_unfinished_requests():
            self._drop_aborted()
            for result in self._engine.step():
                if result.finished:
                    self._let_off(result)
            now = sum(int(request.num_computed_tokens) for request in self._scheduler.requests.values())
            if now != progress:
                self._tick()
            progress = now
        if self._riding:
            lost = sorted(seat.index for seat in self._riding.values())
            raise RuntimeError(f"vLLM ended without a word on rows {lost}")

    def _board(self, seat: Seat) -> None:
        """Nothing runs before the first step, so all who board before it are admitted together."""
        try:
            internal = self._engine.add_request(seat.request_id, seat.engine_input, seat.params)
        except Exception as error:
            names = self._engine.output_processor.external_req_ids.get(seat.request_id, ())
            self._engine.abort_request(list(names), internal=True)
            self._emit(refused(seat.index, error))
            return
        self._riding[seat.request_id] = seat
        names = self._engine.output_processor.external_req_ids[seat.request_id]
        self._sequences |= dict.fromkeys(names, seat.request_id)
        self._internal[seat.request_id] = internal

    def _hold_for_grammars(self, timeout_s: float) -> None:
        """Grammars compile in a thread of vLLM's, and a row that still waits for its own would board
        later."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not all(_ready(request) for request in self._requests()):
            self._drop_aborted()
            self._tick()
            time.sleep(_POLL_S)
        for request in list(self._requests()):
            key = self._sequences.get(request.request_id, "")
            problem = _grammar_problem(request, timeout_s)
            if problem is not None and key in self._riding:
                seat = self._throw_out(key)
                self._emit(RowRefused(index=seat.index, code="invalid_request", message=problem))

    def _requests(self) -> Iterator[VllmRequest]:
        yield from self._scheduler.requests.values()

    def _drop_aborted(self) -> None:
        unwanted = self._aborted()
        if unwanted:
            for key in [key for key, seat in self._riding.items() if seat.index in unwanted]:
                self._throw_out(key)

    def _throw_out(self, key: str) -> Seat:
        """By vLLM's internal id: by ours it would forget the parent of an n > 1 row in its books."""
        self._engine.abort_request([self._internal[key]], internal=True)
        return self._riding.pop(key)

    def _let_off(self, result: RequestOutput) -> None:
        seat = self._riding.pop(str(result.request_id), None)
        if seat is None:
            return
        failure = failed_reason(result)
        if failure is not None:
            self._emit(_failed(seat, failure))
            return
        usage = usage_of(result)
        self.completion_tokens += usage.completion_tokens
        self._emit(
            RowDone(
                index=seat.index,
                outputs=outputs_of(seat.row.request, result),
                usage=usage,
                ran_ms=(time.monotonic() - self._started) * 1000,
                proof=self._witness.row(seat.index),
            )
        )


def _failed(seat: Seat, reason: str) -> RowRefused:
    if reason == "error" and seat.params.structured_outputs is not None:
        message = "the structured output's grammar allows no answer"
        return RowRefused(index=seat.index, code="invalid_request", message=message)
    message = f"vLLM ended this row with {reason!r} instead of an answer"
    return RowRefused(index=seat.index, code="engine_error", message=message)


def _ready(request: VllmRequest) -> bool:
    shape = request.structured_output_request
    return shape is None or bool(shape.is_grammar_ready)


def _grammar_problem(request: VllmRequest, timeout_s: float) -> str | None:
    shape = request.structured_output_request
    if shape is None:
        return None
    if not shape.is_grammar_ready:
        return f"the structured output's grammar did not compile within {timeout_s:g} s"
    if isinstance(shape.grammar, Exception):
        return f"the structured output's grammar does not compile: {shape.grammar}"[:500]
    return None

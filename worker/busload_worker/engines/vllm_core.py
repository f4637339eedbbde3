"""vLLM's offline engine in this process, strictly one batch as one unit.

vLLM has no switch for that. Here a batch is all that the engine holds: its rows are added before the first
step, nothing is added until the last of them ended, and the engine's own time stamps prove it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from busload_shared.errors import EngineDied, EngineStartFailed
from busload_shared.request import ChatMessage, Request
from busload_shared.result import Proof

from .grammar_guard import GrammarGuard
from .protocol import BatchDone, BatchStarted, EngineInfo, EngineRow, RowDone, RowRefused
from .vllm_grammars import guard_for, refusals
from .vllm_memory import Need, Room, cpu_kv_bytes, free_memory_bytes, free_what_it_holds
from .vllm_preflight import Preflight, Seat
from .vllm_proof import Witness, worst
from .vllm_ride import Emit, Ride
from .vllm_settings import VllmSettings, check_settings, engine_args, prepare_environment

if TYPE_CHECKING:
    from vllm.v1.engine.llm_engine import LLMEngine

_HELLO = tuple(
    EngineRow(index=index, request=Request(id="warm-up", prompt="Hello", max_tokens=3, ignore_eos=True))
    for index in (0, 1)
)


class VllmCore:
    """A Core. Runs in one thread only: a second one inside vLLM ends the process."""

    def __init__(self, config: VllmSettings) -> None:
        self._settings = config
        self._engine: LLMEngine | None = None
        self._preflight: Preflight | None = None
        self._grammars: GrammarGuard | None = None
        self._witness = Witness()
        self._seats = config.max_batch_size
        self._room = Room(blocks=0, block_size=1)

    @classmethod
    def from_json(cls, config: str) -> VllmCore:
        return cls(VllmSettings.model_validate_json(config))

    def load(self) -> EngineInfo:
        """Load the model, check that a full batch fits, and run one throwaway batch."""
        check_settings(self._settings)
        prepare_environment()
        import vllm

        try:
            self._engine = engine = _make_engine(self._settings)
        except (OSError, ValueError, RuntimeError) as error:
            raise _start_failure(self._settings.model, error) from error
        config = engine.vllm_config
        self._seats = int(config.scheduler_config.max_num_seqs)
        need = Need(self._seats, int(config.model_config.max_model_len), int(config.cache_config.block_size))
        self._room = Room(blocks=int(config.cache_config.num_gpu_blocks) - 1, block_size=need.block_size)
        self._preflight = Preflight(engine, seats=self._seats)
        self._grammars = guard_for(engine, timeout_s=self._settings.grammar_timeout_s)
        self._warm_up()
        return EngineInfo(
            engine="vllm",
            model=self._settings.model,
            version=str(vllm.__version__),
            max_model_len=need.max_model_len,
            kv_tokens=self._room.tokens(need),
        )

    def close(self) -> None:
        if self._grammars is not None:
            self._grammars.close()
        if self._engine is not None:
            self._engine.engine_core.shutdown()
            self._engine = None

    def run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        """See Core. A batch that raised leaves an engine that has proved that it can go on, or EngineDied."""
        try:
            self._run(rows, emit=emit, aborted=aborted, tick=tick)
        except EngineDied:
            raise
        except Exception as error:
            self._recover(error, tick=tick)
            raise

    def _run(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> None:
        """Rows with n > 1 take n seats; when all need more than there are, or more KV cache than there is, the batch
        rides in parts.

        The parts run one after the other, each as one unit: neither is a row refused for its neighbours'
        weight, nor does one board while others ride.
        """
        seats = self._seat_all(rows, emit=emit, aborted=aborted, tick=tick)
        prompt_tokens = sum(seat.prompt_tokens for seat in seats)
        tokens = sum(seat.tokens for seat in seats)
        emit(begun := BatchStarted(rows=len(seats), prompt_tokens=prompt_tokens, tokens=tokens))
        proofs: list[Proof] = []
        completion_tokens = 0
        try:
            for part in parts(seats, at_once=self._seats, room=self._room):
                ride = Ride(self._engine, self._witness, started=begun.at, emit=emit, aborted=aborted, tick=tick)
                # each was tried and compiles within its time; they do so one after the other
                ride.run(part, grammar_timeout_s=self._settings.grammar_timeout_s * (1 + len(part)))
                proofs.append(self._witness.close())
                completion_tokens += ride.completion_tokens
        finally:
            self._clear()
        emit(
            BatchDone(
                ran_ms=(time.monotonic() - begun.at) * 1000,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
                proof=worst(proofs),
            )
        )

    def _seat_all(
        self,
        rows: Sequence[EngineRow],
        *,
        emit: Emit,
        aborted: Callable[[], frozenset[int]],
        tick: Callable[[], None],
    ) -> list[Seat]:
        if self._preflight is None:
            raise EngineDied("the engine is not loaded")
        seats = []
        unfit = refusals(self._grammars, rows, tick=tick)
        for refusal in unfit:
            emit(refusal)
        turned_away = {refusal.index for refusal in unfit}
        for row in rows:
            tick()
            if row.index in turned_away or row.index in aborted():
                continue
            checked = self._preflight.check(row)
            if isinstance(checked, Seat):
                seats.append(checked)
            else:
                emit(checked)
        return seats

    def _clear(self) -> None:
        """Take out whatever is left in vLLM: the next batch would get it as its own, or hang.

        Raises EngineDied when something stays: an engine that mixes batches must not go on.
        """
        if self._engine is None:
            return
        books = self._engine.output_processor
        self._engine.abort_request([*books.parent_requests, *books.request_states], internal=True)
        scheduled = self._engine.engine_core.engine_core.scheduler.requests
        left = len(books.request_states) + len(books.parent_requests) + len(scheduled)
        if left:
            raise EngineDied(f"vLLM still holds {left} requests after the batch's end")

    def _recover(self, error: Exception, *, tick: Callable[[], None]) -> None:
        """Make the engine fit for the next batch after a step raised. Raises EngineDied when it cannot be.

        The failed step's blocks stand in the prefix cache as if they had been computed: the next request with such
        a prompt would be answered from memory that nobody wrote. And an error may stay, as CUDA's do: only a run
        shows whether the engine still answers.
        """
        if self._engine is None:
            return
        free_what_it_holds(error)
        try:
            clean = self._engine.reset_prefix_cache()
            problem = self._try_out(_HELLO, tick=tick) if clean else "its prefix cache cannot be emptied"
        except EngineDied:
            raise
        except Exception as again:
            problem = f"{type(again).__name__}: {again}"[:300]
        if problem:
            raise EngineDied(f"vLLM cannot go on after {type(error).__name__}: {problem}") from error

    def _try_out(self, rows: Sequence[EngineRow], *, tick: Callable[[], None]) -> str:
        """Run these rows for nobody. Returns what kept one from its answer, empty when all were answered."""
        told: list[BatchStarted | RowDone | RowRefused | BatchDone] = []
        self._run(rows, emit=told.append, aborted=frozenset, tick=tick)
        # a model without a chat template refuses the chat, and is ready all the same
        chats = {row.index for row in rows if row.request.messages is not None}
        refusals = [event for event in told if isinstance(event, RowRefused) and event.index not in chats]
        return refusals[0].message if refusals else ""

    def _warm_up(self) -> None:
        """The first batch compiles kernels, which takes seconds; and an engine that cannot answer is not
        ready."""
        hello = ChatMessage(role="user", content="Hello")
        chat = EngineRow(index=2, request=Request(id="warm-up-chat", messages=(hello,), max_tokens=3, ignore_eos=True))
        problem = self._try_out([*_HELLO, chat], tick=_nothing)
        if problem:
            raise EngineStartFailed(f"the model is loaded but cannot answer: {problem}")
        self._witness.forget()


def parts(seats: Sequence[Seat], *, at_once: int, room: Room) -> Iterator[list[Seat]]:
    """Cut the rows, in order, into as few runs as hold no more sequences than may run at once, and no more KV cache
    than there is however long they get. A row too heavy for all of it rides alone."""
    part: list[Seat] = []
    taken = blocks = 0
    for seat in seats:
        needs = room.blocks_of(seat.prompt_tokens + int(seat.params.max_tokens)) * seat.sequences
        if part and (taken + seat.sequences > at_once or blocks + needs > room.blocks):
            yield part
            part, taken, blocks = [], 0, 0
        part.append(seat)
        taken += seat.sequences
        blocks += needs
    if part:
        yield part


def _make_engine(settings: VllmSettings) -> LLMEngine:
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    args = engine_args(settings)
    sized = {"kv_cache_memory_bytes", "gpu_memory_utilization", "num_gpu_blocks_override"} & set(settings.options)
    if current_platform.is_cpu() and not sized:
        args.kv_cache_memory_bytes = cpu_kv_bytes(args, free_bytes=free_memory_bytes())
    return LLMEngine.from_engine_args(args, usage_context=UsageContext.LLM_CLASS)


def _start_failure(model: str, error: Exception) -> EngineStartFailed:
    reason = " ".join(str(error).split())[:600]
    if isinstance(error, OSError) or "config.json" in reason:
        return EngineStartFailed(
            f"model {model} cannot be loaded: {reason}; set BUSLOAD_MODEL=/path/to/the/folder, or "
            "HF_HUB_OFFLINE=0 to let a hub's model be fetched"
        )
    return EngineStartFailed(
        f"vLLM does not start with model {model}: {reason}; check BUSLOAD_MODEL and the BUSLOAD_VLLM_* settings"
    )


def _nothing() -> None:
    pass

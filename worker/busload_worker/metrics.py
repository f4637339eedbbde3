"""`/metrics` of one worker: what its meter counted and its vitals say. Needs prometheus_client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from busload_shared.metrics.families import Families
from busload_shared.metrics.serving import MetricsServer
from busload_shared.replies import WorkerState
from busload_shared.result import ErrorCode, Status, Trigger

from .housekeeping import STALE_S
from .metrics_meter import EngineState
from .settings import Settings
from .vitals import Vitals

TRIGGERS = tuple(trigger for trigger in get_args(Trigger) if trigger != "drain")
"""No worker drains a queue: those that stop hand back what they hold."""


def serve_metrics(vitals: Vitals, settings: Settings) -> MetricsServer:
    """Serve until closed. Raises SettingsInvalid when the port cannot be had."""
    variables = "BUSLOAD_METRICS_HOST and BUSLOAD_METRICS_PORT"
    return MetricsServer(
        registry_of(vitals, settings), host=settings.metrics_host, port=settings.metrics_port, variables=variables
    )


def registry_of(vitals: Vitals, settings: Settings) -> CollectorRegistry:
    """All series of one worker, and those of its process."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(vitals, settings))
    ProcessCollector(registry=registry)
    return registry


class WorkerCollector(Collector):
    """Reads at each scrape; nothing is kept up to date for it."""

    def __init__(self, vitals: Vitals, settings: Settings) -> None:
        self._vitals, self._meter, self._settings = vitals, vitals.meter, settings
        self._of = Families("queue", settings.queue)

    def describe(self) -> list[Metric]:
        """Nothing: the registry would ask for all only to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._batches()
        yield from self._answers()
        yield from self._care()
        yield from self._engine()
        yield from self._learned()
        yield from self._state()

    def _batches(self) -> Iterator[Metric]:
        of, m = self._of, self._meter
        about = "Batches claimed, by what made them leave"
        yield of.counters("busload_worker_batches", about, "trigger", m.batches, known=TRIGGERS)
        yield of.counter("busload_worker_batch_rows", "Requests in claimed batches", m.rows)
        yield of.histogram("busload_worker_batch_fill_ratio", "Requests of a batch to the most it may have", m.fill)
        about = "Prompt and max_tokens over the requests of a batch that ran"
        yield of.histogram("busload_worker_batch_weight_tokens", about, m.weight)
        yield of.histogram("busload_worker_wait_seconds", "From a request's arrival to its claim", m.wait_s)
        yield of.histogram("busload_worker_run_seconds", "A batch's time in the engine", m.run_s)
        about = "From a request's last token to its release; only with release = batch"
        yield of.histogram("busload_worker_held_seconds", about, m.held_s)
        about = "Tokens of batches that ran to their end"
        yield of.counters("busload_worker_tokens", about, "kind", m.tokens, known=("prompt", "completion"))

    def _answers(self) -> Iterator[Metric]:
        of, m = self._of, self._meter
        yield of.counters(
            "busload_worker_results", "Results written, by status", "status", m.results, known=get_args(Status)
        )
        about = "Results that are not succeeded, by error code"
        yield of.counters("busload_worker_rejects", about, "reason", m.rejects, known=get_args(ErrorCode))
        about = "Results that Redis refused: the lease was lost, or the id was answered before"
        yield of.counter("busload_worker_results_refused", about, m.results_refused)
        yield of.histogram("busload_worker_deliver_seconds", "A call that writes results to Redis", m.deliver_s)
        yield of.counter("busload_worker_dead_letters", "Dead letters written", m.dead_letters)

    def _care(self) -> Iterator[Metric]:
        of, m, v = self._of, self._meter, self._vitals
        yield of.counter("busload_worker_lease_renewals", "Leases renewed", m.renewals)
        yield of.counter("busload_worker_lease_losses", "Batches lost to other workers while they ran", v.leases_lost)
        yield of.counter("busload_worker_reclaims", "Batches taken back from workers that fell silent", m.reclaims)
        yield of.counter("busload_worker_suspects", "Requests put back to run again after a death", m.suspects)
        yield of.counter("busload_worker_handed_back", "Requests handed back untouched", m.handed_back)

    def _engine(self) -> Iterator[Metric]:
        of, m, v = self._of, self._meter, self._vitals
        about = "Time of the engine: busy, idle, or down (starting or gone)"
        states = get_args(EngineState)
        yield of.counters("busload_worker_engine_seconds", about, "state", m.engine_seconds(), known=states)
        yield of.counter("busload_worker_engine_deaths", "Engine processes that ended in a batch", m.engine_deaths)
        yield of.counter("busload_worker_engine_restarts", "Starts of the engine after a death", v.engine_restarts)
        yield of.counter("busload_worker_out_of_memory", "Runs that ended for lack of memory", v.out_of_memory)
        about = "Batches that did not run as one unit"
        yield of.counter("busload_worker_proofs_broken", about, v.proofs_broken)

    def _learned(self) -> Iterator[Metric]:
        of, fit = self._of, self._vitals.fit
        curve = fit.curve()
        parts = {"overhead": 0.0, "prompt_token": 0.0, "step": 0.0, "row_token": 0.0}
        if curve is not None:
            in_ms = (curve.overhead_ms, curve.prompt_ms, curve.step_ms, curve.token_ms)
            parts = {part: ms / 1000 for part, ms in zip(parts, in_ms, strict=True)}
        about = "The learned batch time: overhead, each prompt token, step, and token of a row; 0 while not known"
        yield of.gauges("busload_worker_curve_seconds", about, "part", parts)
        about = "Share of the spread of batch times that the curve explains; 0 while not known"
        yield of.gauge("busload_worker_curve_r_squared", about, fit.r_squared())
        about = "Decisions of the learned wait"
        decisions = self._meter.decisions
        yield of.counters("busload_worker_wait_decisions", about, "decision", decisions, known=("wait", "leave"))

    def _state(self) -> Iterator[Metric]:
        of, v, s = self._of, self._vitals, self._settings
        state = v.state
        states = {name: float(name == state) for name in get_args(WorkerState)}
        yield of.gauges("busload_worker_state", "1 for the state the worker is in", "state", states)
        ready = state == "ready" and v.working(within_s=STALE_S)
        yield of.gauge("busload_worker_ready", "Whether it can take a batch or runs one", float(ready))
        yield of.gauge("busload_worker_running_rows", "Requests of the batch that runs", v.batch_size)
        yield of.gauge("busload_worker_rows_per_second", "Its recent rate while it runs", v.rows_per_s or 0.0)
        engine = v.engine
        named = {
            "worker": s.worker_name,
            "engine": engine.engine if engine else s.engine,
            "model": engine.model if engine else s.model,
            "engine_version": engine.version if engine else "",
        }
        about = "Always 1; what the worker is"
        yield of.info("busload_worker_info", about, named)

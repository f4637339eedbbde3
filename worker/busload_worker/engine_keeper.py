"""Keeps one engine up: chooses it, starts it, starts it again after a death."""

from __future__ import annotations

import asyncio
import logging

from busload_shared.errors import EngineError, SettingsInvalid

from .engines.fake_engine import FakeEngine
from .engines.fake_model import FakeCurve
from .engines.host import EngineHost
from .engines.protocol import Engine
from .engines.vllm_settings import VllmSettings
from .logs import fields
from .policy import backoff_s
from .settings import Settings
from .vitals import Vitals

logger = logging.getLogger("busload.engine")


def make_engine(settings: Settings) -> Engine:
    """The engine that the settings name, not yet started. Raises SettingsInvalid for a combination that cannot be.

    Every engine runs in a process of its own; the fake may also run inline, where only speed is measured.
    """
    s = settings
    if s.engine == "fake":
        curve = FakeCurve(
            overhead_ms=s.fake_overhead_ms,
            per_request_ms=s.fake_per_request_ms,
            per_token_ms=s.fake_per_token_ms,
            per_prompt_token_ms=s.fake_per_prompt_token_ms,
            per_row_token_ms=s.fake_per_row_token_ms,
        )
        if s.engine_host != "process":
            return FakeEngine(curve)
        return EngineHost("fake", curve, start_timeout_s=s.engine_start_s, hang_s=s.engine_hang_s)
    if s.engine != "vllm" and ":" not in s.engine:
        raise SettingsInvalid(f"BUSLOAD_ENGINE={s.engine}: write vllm, fake, or package.module:Class of your own")
    if s.engine_host == "inline":
        raise SettingsInvalid("BUSLOAD_ENGINE_HOST=inline is for the fake engine only; write auto")
    return EngineHost(s.engine, _core_settings(s), start_timeout_s=s.engine_start_s, hang_s=s.engine_hang_s)


def _core_settings(settings: Settings) -> VllmSettings:
    """What the engine's core is told; an engine of the user's own gets the same."""
    if settings.engine == "vllm" and not settings.model:
        raise SettingsInvalid("BUSLOAD_MODEL is not set: write the model's folder or name, or BUSLOAD_ENGINE=fake")
    return VllmSettings(
        model=settings.model or "-",
        max_batch_size=settings.max_batch_size,
        options=settings.vllm,
    )


class EngineKeeper:
    """Brings the engine up and says so in the vitals. The first start may fail for good; later ones are repeated,
    ¼, ½, 1, … 30 seconds apart, while the worker claims nothing."""

    def __init__(self, engine: Engine, vitals: Vitals) -> None:
        self.engine = engine
        self._vitals = vitals
        self._deaths = 0
        self.up = False

    async def first_start(self) -> None:
        """Start. Raises EngineStartFailed: the settings or the model are wrong, and no repeat will help."""
        self._vitals.engine = await self.engine.start()
        self._rise()

    async def ensure_up(self, stop: asyncio.Event) -> None:
        """Return once the engine runs, or `stop` is set."""
        while not self.up and not stop.is_set():
            pause = backoff_s(self._deaths)
            logger.warning("engine starts again in %.2f s", pause, extra=fields(deaths=self._deaths))
            await _sleep_unless(stop, pause)
            if stop.is_set():
                return
            try:
                self._vitals.engine = await self.engine.start()
            except EngineError as error:
                self._deaths += 1
                logger.error("engine does not start: %s", error)
            else:
                self._vitals.engine_restarts += 1
                self._rise()

    def died(self) -> None:
        """The engine's process is gone."""
        self.up = False
        self._deaths += 1
        self._vitals.state = "restarting"
        self._vitals.meter.died()

    def survived(self) -> None:
        """A batch ran to its end: the next death counts as the first."""
        self._deaths = 0

    def _rise(self) -> None:
        self.up = True
        self._vitals.meter.engine("idle")
        if self._vitals.state != "draining":
            self._vitals.state = "ready"


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return

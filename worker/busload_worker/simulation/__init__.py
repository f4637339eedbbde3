"""A discrete-event simulator of a queue and its workers. It runs the worker's own decisions (picking, the learned wait)
against a service curve, laws of arrival and of length. Pure and seeded; the standard library only."""

from __future__ import annotations

from .arrivals import Arrivals, Backlog, Bursts, ClosedLoop, Mmpp, Poisson, Trace
from .fleet import simulate
from .laws import (
    ORACLE,
    Constant,
    Exponential,
    History,
    Learned,
    LengthLaw,
    Lognormal,
    Mixed,
    Noisy,
    Predictions,
    bimodal,
)
from .outcome import Outcome
from .scenario import Order, Release, Scenario, Wait

__all__ = [
    "ORACLE",
    "Arrivals",
    "Backlog",
    "Bursts",
    "ClosedLoop",
    "Constant",
    "Exponential",
    "History",
    "Learned",
    "LengthLaw",
    "Lognormal",
    "Mixed",
    "Mmpp",
    "Noisy",
    "Order",
    "Outcome",
    "Poisson",
    "Predictions",
    "Release",
    "Scenario",
    "Trace",
    "Wait",
    "bimodal",
    "simulate",
]

"""Any rules, any sight, any memory."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from busload.autoscale.batch_time import BatchTime
from busload.autoscale.policy import Memory
from busload.autoscale.rules import Rules
from busload.autoscale.sight import Sight

steady = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A loaded machine is no failure."""

seconds = st.floats(0, 10_000)
batches = st.builds(BatchTime, st.floats(0, 100), st.floats(1e-6, 10), st.integers(1, 256))


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """All that are allowed."""
    low = draw(st.integers(0, 20))
    return Rules(
        target_s=draw(st.floats(0.01, 3600)),
        min_workers=low,
        max_workers=draw(st.integers(max(1, low), 200)),
        quiet_s=draw(seconds),
        idle_s=draw(seconds),
        step=draw(st.floats(0.01, 1)),
        start_s=draw(seconds),
    )


sights = st.builds(
    Sight,
    at_s=st.floats(10_000, 20_000),
    waiting=st.integers(0, 1_000_000),
    inflight=st.integers(0, 10_000),
    oldest_s=seconds,
    arrivals_per_s=st.floats(0, 10_000),
    arrivals_sd=st.floats(0, 100),
    ready=st.integers(0, 200),
    coming=st.integers(0, 200),
    batch=st.none() | batches,
)
memories = st.none() | st.builds(
    Memory,
    asked=st.integers(0, 200),
    changed_s=seconds,
    busy_s=seconds,
    needs=st.lists(st.tuples(st.floats(0, 20_000), st.integers(0, 200)), max_size=4).map(tuple),
    late_since_s=st.none() | seconds,
    batch=st.none() | batches,
)

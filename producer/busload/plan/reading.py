"""What `busload plan` is told on its command line, read and checked."""

from __future__ import annotations

import math
from pathlib import Path

from busload_shared.curve import ServiceCurve
from busload_shared.errors import BusloadError
from busload_worker.simulation import (
    ORACLE,
    Arrivals,
    Constant,
    Exponential,
    History,
    Learned,
    LengthLaw,
    Lognormal,
    Noisy,
    Poisson,
    Predictions,
    Trace,
    bimodal,
)

LAWS = {
    "constant": ("TOKENS", Constant),
    "exponential": ("MEAN", Exponential),
    "lognormal": ("MEDIAN:SIGMA", Lognormal),
    "bimodal": ("SHORT:LONG:SHARE_OF_LONG", bimodal),
}


class PlanInvalid(BusloadError):
    """The caller must change what the planner is asked."""


def read_curve(text: str) -> ServiceCurve:
    """From `overhead,prompt,step,token`, ms."""
    parts = _numbers(text.split(","), f"--curve {text}")
    if len(parts) != 4 or min(parts) < 0 or max(parts) == 0:
        raise PlanInvalid(f"--curve {text}: give four numbers of ms, none below 0: overhead,prompt,step,token")
    overhead, prompt, step, token = parts
    return ServiceCurve(overhead_ms=overhead, prompt_ms=prompt, step_ms=step, token_ms=token)


def read_law(text: str) -> LengthLaw:
    """From `lognormal:80:1` and the like, or `file:PATH` with a number of tokens on each line."""
    name, _, rest = text.partition(":")
    if name == "file":
        return History([max(1, round(row[-1])) for row in _rows(Path(rest), "--length-law")])
    if name not in LAWS:
        known = ", ".join(f"{law}:{form}" for law, (form, _) in LAWS.items())
        raise PlanInvalid(f"--length-law {text}: not one of {known}, file:PATH")
    form, make = LAWS[name]
    parts = _numbers(rest.split(":"), f"--length-law {text}")
    if len(parts) != form.count(":") + 1 or min(parts) < 0 or parts[0] < 1:
        raise PlanInvalid(f"--length-law {text}: write {name}:{form}, in tokens")
    whole = [round(part) if name in ("constant", "bimodal") and i < 2 else part for i, part in enumerate(parts)]
    law: LengthLaw = make(*whole)  # type: ignore[operator]
    return law


def read_predictions(text: str) -> Predictions:
    """From `oracle`, `learned` or `noisy:0.5`."""
    name, _, error = text.partition(":")
    if name == "oracle":
        return ORACLE
    if name == "learned":
        return Learned()
    if name == "noisy":
        return Noisy(abs(_numbers([error or "0.5"], f"--predictions {text}")[0]))
    raise PlanInvalid(f"--predictions {text}: not one of oracle, learned, noisy:LOG_ERROR")


def read_arrivals(per_s: float | None, trace: Path | None) -> tuple[Arrivals, float]:
    """The law of arrivals, and its mean rate per second."""
    if (per_s is None) == (trace is None):
        raise PlanInvalid("give --rate, requests per second, or --trace, a file of arrival times")
    if trace is None:
        assert per_s is not None
        return Poisson(per_s), per_s
    times = sorted(row[0] for row in _rows(trace, "--trace"))
    if len(times) < 2 or times[-1] <= times[0]:
        raise PlanInvalid(f"--trace {trace}: give at least two arrivals at different times, seconds, one on a line")
    rate = (len(times) - 1) / (times[-1] - times[0])
    return Trace(tuple(1000 * (at - times[0]) for at in times)), rate


def lengths_of(trace: Path) -> LengthLaw | None:
    """The lengths in a trace's second column, if it has one."""
    rows = _rows(trace, "--trace")
    return History([max(1, round(row[1])) for row in rows]) if all(len(row) > 1 for row in rows) else None


def _rows(path: Path, option: str) -> list[list[float]]:
    """The numbers of each line, parted by commas or blanks; a # begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlanInvalid(f"{option} {path}: cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if words := line.partition("#")[0].replace(",", " ").split():
            rows.append(_numbers(words, f"{option} {path}, line {number}"))
    if not rows:
        raise PlanInvalid(f"{option} {path}: holds no numbers")
    return rows


def _numbers(words: list[str], where: str) -> list[float]:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        raise PlanInvalid(f"{where}: not a number: {', '.join(words)[:40]}") from None
    if not all(math.isfinite(number) for number in numbers):
        raise PlanInvalid(f"{where}: must be finite")
    return numbers

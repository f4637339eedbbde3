"""How results and times read on a terminal."""

from __future__ import annotations

from busload_shared.result import Result

from ..demo.summary import latency_ms, new_tokens
from ..demo.view import printable, seconds
from .output import BAD_NEWS, DONE, Output


def show_result(output: Output, result: Result, *, among_others: bool = False) -> int:
    """Print a result and return its exit code. Of a single one stdout gets the text alone."""
    code = DONE if result.status == "succeeded" else BAD_NEWS
    if output.as_json:
        output.json_line(result)
        return code
    if code == BAD_NEWS:
        reason = f"{result.error.code}: {printable(result.error.message)}" if result.error else "no reason given"
        line = f"{result.id}: {result.status}, {reason}"
        if among_others:
            output.answer(line, "red")
        else:
            output.complain(line)
        return code
    if among_others:
        output.answer(headline(result), "bold")
    else:
        output.note(headline(result))
    for sample in result.outputs:
        if len(result.outputs) > 1:
            output.answer(f"[{sample.index}]", "bold")
        output.answer(harmless(sample.text))
    return code


def headline(result: Result) -> str:
    """What is told of an answer beside its text."""
    parts = [f"{result.id}: {result.status}, {new_tokens(result)} tokens"]
    if result.timing:
        waited, run = seconds(result.timing.waited_ms), seconds(result.timing.run_ms)
        parts.append(f"{seconds(latency_ms(result.timing))} (waited {waited}, ran {run})")
    if result.batch:
        parts.append(f"batch of {result.batch.size}, left because {result.batch.trigger}")
    return ", ".join(parts)


def harmless(text: str) -> str:
    """The text with its lines, without control characters: an answer must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def counted(number: int, name: str) -> str:
    """`1 dead letter`, `2 dead letters`."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def age(milliseconds: float | None) -> str:
    """How old something is, for people: `340 ms`, `2.31 s`, `12 min`, `3.5 h`; a dash for nothing."""
    if milliseconds is None:
        return "-"
    if milliseconds < 120_000:
        return seconds(milliseconds)
    minutes = milliseconds / 60_000
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.1f} h" if minutes < 2880 else f"{minutes / 1440:.1f} days"

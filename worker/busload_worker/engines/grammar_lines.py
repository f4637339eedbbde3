"""What the engine and its grammar trials say to each other: one JSON object a line, over two pipes."""

from __future__ import annotations

from typing import Literal

from busload_shared.request import Message


class TrialRules(Message):
    """The first line. `tokenizer` is xgrammar's TokenizerInfo as JSON; a trial ends with more than
    `memory_bytes` of its own."""

    tokenizer: str
    any_whitespace: bool
    memory_bytes: int
    parent: int


class Grammar(Message):
    """One structured output, as xgrammar takes it."""

    kind: Literal["json", "regex", "ebnf", "lark"]
    text: str


class Trial(Message):
    """Try this grammar for so many seconds of processor time."""

    number: int
    cpu_s: float
    grammar: Grammar


class Verdict(Message):
    """What came of a trial: `slow` when its time ran out, else `problem`, which is None for a grammar that is fit.
    Number 0 says that the trials may begin."""

    number: int
    slow: bool = False
    problem: str | None = None


def to_line(message: Message) -> bytes:
    """One line of JSON, its end included."""
    return message.model_dump_json().encode() + b"\n"

"""Dead letters as operators handle them: found by id or by letter, put back or dropped, one or all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1

from busload_shared.errors import BusloadError
from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter

PAGE = 100
"""Letters read at once: a letter holds its request, which may be a megabyte."""

Wanted = Callable[[DeadLetter], bool]
Act = Callable[[DeadLetter], Awaitable[bool]]
Tell = Callable[[int], None]


class NoSuchLetter(BusloadError):
    """No dead letter has this name. Look at `busload dead list`: it may be redriven, purged or too old."""


@dataclass(frozen=True, slots=True)
class Handled:
    """How many letters were acted on, and how many somebody else took in the meantime."""

    done: int
    gone: int


def name_of(letter: DeadLetter) -> str:
    """The letter's own name: one that could not be read has no id, and an id may have several letters."""
    return print_of(letter)[:8]


def print_of(letter: DeadLetter) -> str:
    """What only this letter has, of all there may be: for programs, where a name is short enough for people."""
    return sha1(letter.model_dump_json().encode(), usedforsecurity=False).hexdigest()


def with_code(code: str | None) -> Wanted:
    """Letters with this error code; all without one."""
    return lambda letter: code is None or letter.code == code


async def letters(queue: Queue, wanted: Wanted) -> AsyncIterator[DeadLetter]:
    """The letters, newest first. One that comes meanwhile may shift the pages, so that one is read twice."""
    total, start = (await queue.info()).dead, 0
    while start < total:
        for letter in await queue.dead_letters(start=start, count=PAGE):
            if wanted(letter):
                yield letter
        start += PAGE


async def named(queue: Queue, names: Sequence[str]) -> list[DeadLetter]:
    """The letters with these ids or names, newest first; all letters of an id. Raises NoSuchLetter."""
    missing, found = set(names), {}
    async for letter in letters(queue, lambda _: True):
        name = name_of(letter)
        hits = _meant(letter, name, names)
        if hits:
            found[name] = letter
            missing -= hits
    if missing:
        raise NoSuchLetter(f"no dead letter has the id or name {', '.join(sorted(missing))}: see `busload dead list`")
    return list(found.values())


async def with_print(queue: Queue, whole_print: str) -> DeadLetter | None:
    """The letter with this `print_of`; None when it is gone."""
    async for letter in letters(queue, lambda one: print_of(one) == whole_print):
        return letter
    return None


def _meant(letter: DeadLetter, name: str, names: Sequence[str]) -> set[str]:
    """Which of these names mean the letter."""
    return {word for word in names if word in (name, letter.id)}


async def act_on(act: Act, chosen: Sequence[DeadLetter], tell: Tell) -> Handled:
    """Redrive or drop these letters one by one, the oldest first, telling how many are through."""
    done = 0
    for through, letter in enumerate(reversed(chosen), start=1):
        done += await act(letter)
        tell(through)
    return Handled(done, len(chosen) - done)


async def act_on_all(queue: Queue, act: Act, wanted: Wanted, *, total: int, tell: Tell) -> Handled:
    """Do so with all that are wanted, but no more than `total`, so that letters which die again are left alone.

    Read from the old end, page by page: new letters come at the other end and shift nothing.
    """
    done = gone = skip = 0
    while done + gone < total:
        page = await queue.dead_letters(start=-(skip + PAGE), count=PAGE)
        before = done
        for letter in [each for each in reversed(page) if wanted(each)][: total - done - gone]:
            acted = await act(letter)
            done, gone = done + acted, gone + (not acted)
            tell(done + gone)
        if done == before:  # nothing here was for us: go on above it
            skip += PAGE
            if skip >= (await queue.info()).dead:
                break
    return Handled(done, gone)

"""What the buttons do to dead letters. Each click is a line in the log, with the operator's name."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from busload_shared.queue import Queue

from ..operating.dead_letters import Act, Handled, act_on_all, with_code, with_print
from .desk import Call
from .door import HOME
from .pages import AT_ONCE

log: Final = logging.getLogger("busload.gateway.ops")


async def redrive(call: Call) -> Response:
    """Put one letter back into its queue."""
    queue = _queue(call)
    return await _one(call, queue, queue.redrive, "redriven")


async def drop(call: Call) -> Response:
    """Drop one letter for good."""
    queue = _queue(call)
    return await _one(call, queue, queue.drop_dead, "dropped")


async def redrive_all(call: Call) -> Response:
    """Put all letters back, or all with one code; the oldest `AT_ONCE` at most."""
    queue, code = _queue(call), call.field("code") or None
    total = min(AT_ONCE, (await queue.info()).dead)
    handled = await act_on_all(queue, queue.redrive, with_code(code), total=total, tell=lambda _: None)
    _note(call, "redriven", handled, code=code or "all")
    return _back(call, "redriven", handled)


async def _one(call: Call, queue: Queue, act: Act, done: str) -> Response:
    letter = await with_print(queue, call.field("letter"))
    acted = letter is not None and await act(letter)
    handled = Handled(int(acted), int(not acted))
    _note(call, done, handled, letter=call.field("letter")[:40], id=letter.id if letter is not None else None)
    return _back(call, done, handled)


def _queue(call: Call) -> Queue:
    return call.desk.sights.of(call.queue()).queue


def _note(call: Call, done: str, handled: Handled, **what: str | None) -> None:
    """At a level that is logged whatever the settings say: somebody changed the queue."""
    who = {"key": call.visitor.operator.name, "queue": call.queue(), "count": handled.done, "gone": handled.gone}
    log.warning("dead letters %s by an operator", done, extra={"fields": {**who, **what}})


def _back(call: Call, done: str, handled: Handled) -> Response:
    where = {"queue": call.queue(), "code": call.field("code"), "did": done, "n": handled.done, "gone": handled.gone}
    return RedirectResponse(f"{HOME}/dead?{urlencode(where)}", 303, {"Cache-Control": "no-store"})

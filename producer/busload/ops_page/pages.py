"""What is to be seen: the overview, its live part, the dead letters."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from busload_shared.queue import Queue
from busload_shared.replies import DeadLetter
from busload_shared.result import ErrorCode

from ..gateway.refused import Refused, not_found
from ..operating.dead_letters import letters, with_code, with_print
from .desk import Call, OpsDesk, form_of
from .door import HOME
from .figures import count, counted
from .histograms import histograms
from .overview import concerns_of, queue_line, tiles
from .rendering import page, static
from .rows import WORKERS_SHOWN, bus_rows, letter_row, seats_of, worker_rows
from .sight import Seen

LETTERS_SHOWN = 20
AT_ONCE = 1000
"""So many letters one click redrives at most: each is a call to Redis, and the browser waits."""


async def overview(call: Call) -> Response:
    """Everything about the queues."""
    return call.page("overview.html", **await _picture(call))


async def live(call: Call) -> Response:
    """The part of the overview that changes, as the page's script asks for it each second."""
    call.request.state.notes.routine = True
    return call.page("_live.html", **await _picture(call))


async def _picture(call: Call) -> dict[str, Any]:
    chosen, names = call.queue(), call.desk.queues()
    seen = await call.desk.sights.look(names)
    one: Seen = next(each for each in seen if each.queue == chosen)
    frame = one.frame
    drawn = histograms(frame.buses, seats_of(frame)) if frame else ()
    return {
        "queue": chosen,
        "queues": [queue_line(each) for each in seen],
        "concerns": concerns_of(one),
        "tiles": tiles(frame) if frame else (),
        "workers": worker_rows(frame) if frame else (),
        "more_workers": max(0, len(frame.info.workers) - WORKERS_SHOWN) if frame else 0,
        "buses": bus_rows(frame) if frame else (),
        "histograms": drawn,
        "counted_buses": counted(sum(bus.is_back for bus in frame.buses), "bus", "buses") if frame else "",
        "dead": count(frame.info.dead) if frame else "",
        "is_old": one.trouble is not None,
        "query": urlencode({"queue": chosen}),
    }


async def dead(call: Call) -> Response:
    """A page of dead letters, newest first."""
    name, code = call.queue(), call.field("code")
    number = max(1, _number(call.field("page")))
    queue = call.desk.sights.of(name).queue
    info = await queue.info()
    found = await _letters(queue, code, skip=(number - 1) * LETTERS_SHOWN)
    return call.page(
        "dead.html",
        queue=name,
        queues=call.desk.queues(),
        letters=[letter_row(letter, info.now_ms) for letter in found[:LETTERS_SHOWN]],
        total=count(info.dead),
        is_any=info.dead > 0,
        codes=get_args(ErrorCode),
        code=code,
        number=number,
        is_more=len(found) > LETTERS_SHOWN if code else number * LETTERS_SHOWN < info.dead,
        at_once=count(AT_ONCE),
        said=_said(call),
        query=urlencode({"queue": name, "code": code}),
    )


async def _letters(queue: Queue, code: str, *, skip: int) -> list[DeadLetter]:
    """Those of one page, and one more where there is one."""
    wanted = LETTERS_SHOWN + 1
    if not code:
        return await queue.dead_letters(start=skip, count=wanted)
    found: list[DeadLetter] = []
    async for letter in letters(queue, with_code(code)):
        if skip > 0:
            skip -= 1
            continue
        found.append(letter)
        if len(found) == wanted:
            break
    return found


def _said(call: Call) -> str:
    """What the last click did, in our own words: an address may hold anything."""
    done = call.field("did")
    if done not in ("redriven", "dropped"):
        return ""
    number, gone = _number(call.field("n")), _number(call.field("gone"))
    told = f"{counted(number, 'dead letter')} {done}."
    return f"{told} {count(gone)} had gone before." if gone else told


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0


async def ask(call: Call) -> Response:
    """Before what cannot be taken back, or is done to many."""
    what, name = call.field("what"), call.queue()
    queue = call.desk.sights.of(name).queue
    if what == "redrive-all":
        total = count((await queue.info()).dead)
        return call.page("ask_all.html", queue=name, code=call.field("code"), total=total, at_once=count(AT_ONCE))
    letter = await with_print(queue, call.field("letter")) if what == "drop" else None
    if letter is None:
        return call.told(404, "There is no such letter any more.")
    row = letter_row(letter, letter.at_ms)
    return call.page("ask_drop.html", queue=name, code=call.field("code"), letter=row)


async def login(request: Request) -> Response:
    """The form, and what it sends."""
    desk: OpsDesk = request.app.state.ops
    desk.door.check_open()
    if request.method != "POST":
        return _form()
    try:
        operator = desk.door.holder_of((await form_of(request)).get("key", ""), request)
    except Refused as error:
        request.state.notes.code = error.refusal.detail.code
        answer = _form(error.refusal.status, f"{error.refusal.detail.message}.")
        if error.refusal.retry_after_s is not None:
            answer.headers["Retry-After"] = str(error.refusal.retry_after_s)
        return answer
    request.state.notes.key = operator.name
    return desk.door.signed_in(operator, request)


def _form(status: int = 200, problem: str = "") -> Response:
    problem = problem[:1].upper() + problem[1:]
    return page("login.html", status, who="", form_token="", here=f"{HOME}/login", problem=problem)


async def logout(call: Call) -> Response:
    """Forget the session."""
    return call.desk.door.signed_out()


async def file(request: Request) -> Response:
    """Style, script and icon: they tell nothing, and need no key."""
    desk: OpsDesk = request.app.state.ops
    desk.door.check_open()
    request.state.notes.routine = True
    found = static(request.path_params["name"])
    if found is None:
        raise not_found("there is no such file")
    return found

"""Waiting for many results at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from busload_shared.errors import BusloadError, ResultTimeout
from busload_shared.result import Result

from .waiting import Waiting

_NAMED = 5

Answer = asyncio.Future[Result]


async def as_completed(
    waiting: Waiting, request_ids: Sequence[str], timeout_s: float | None
) -> AsyncGenerator[Result, None]:
    """See `AsyncClient.as_completed`. The ids are distinct."""
    done: asyncio.Queue[Answer | None] = asyncio.Queue()
    expected = {waiting.expect(i, patient=timeout_s is not None): i for i in request_ids}
    for future in expected:
        future.add_done_callback(done.put_nowait)
    waiting.look_up(request_ids)
    timer = None
    if timeout_s is not None:
        timer = asyncio.get_running_loop().call_later(timeout_s, done.put_nowait, None)
    errors: list[BaseException] = []
    try:
        while expected and (answer := await done.get()):
            waiting.forget(expected.pop(answer), answer)
            if error := answer.exception():
                errors.append(error)
            else:
                yield answer.result()
    finally:
        if timer:
            timer.cancel()
        for future, request_id in expected.items():
            waiting.forget(request_id, future)
            future.cancel()
    _raise(errors, list(expected.values()), timeout_s)


def _raise(errors: list[BaseException], late: list[str], timeout_s: float | None) -> None:
    if late:
        names = ", ".join(late[:_NAMED]) + (", …" if len(late) > _NAMED else "")
        raise ResultTimeout(f"{len(late)} ids have no result within {timeout_s} s: {names}")
    if len(errors) > 1 and isinstance(errors[0], BusloadError):
        raise type(errors[0])(f"{errors[0]} (and {len(errors) - 1} more ids failed)")
    if errors:
        raise errors[0]

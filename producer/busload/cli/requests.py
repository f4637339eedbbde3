"""`busload result`, `wait`, `cancel`, `status`: what is done with ids."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Annotated

import typer

from busload_shared.errors import BusloadUnavailable, RequestInvalid
from busload_shared.replies import RequestStatus
from busload_shared.result import Result

from ..async_client import AsyncClient
from ..looking import no_result
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, TimeoutS, partitions
from .output import BAD_NEWS, DONE, PATIENCE_S, Output, perform
from .polling import polled
from .progress import counting
from .reading import ids_in
from .shown import show_result

Id = Annotated[str, typer.Argument(metavar="ID", help="The request's id")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of requests; - reads them from stdin")]
Poll = Annotated[bool, typer.Option("--poll", help="Read the keys twice a second; the analyst's rights are enough")]

Work = Callable[[AsyncClient], Awaitable[int]]


def result(id: Id, redis_url: RedisUrl = REDIS_URL, queue: QueueName = QUEUE, as_json: AsJson = False) -> None:
    """Print a request's result if it is there now.

    Ends with 1 if there is none yet, or if it is no success.
    stdout gets the text alone, or with --json the whole Result. Needs no more than the analyst's rights.

        busload result 42

        busload result 42 --json | jq .usage
    """
    output = Output("busload result", as_json)

    async def work(client: AsyncClient) -> int:
        async with output.patient("asking Redis"):
            found = await _now(client, [id])
        if found[0].result is not None:
            return show_result(output, found[0].result)
        output.complain(_absent(id, found[0]))
        return BAD_NEWS

    _with_client(output, redis_url, queue, work)


def wait(  # noqa: PLR0917 - each is an option of the command
    ids: Ids,
    timeout_s: TimeoutS = None,
    poll: Poll = False,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Wait for results and print them as they come.

    Ends with 0 only if all came and succeeded.
    Without a timeout an unknown id is told at once; with one it is waited for, for it may still come.

        busload wait 42 43 --timeout-s 60

        busload submit --file requests.jsonl | busload wait - --json > results.jsonl
    """
    output = Output("busload wait", as_json)

    async def work(client: AsyncClient) -> int:
        names = _some(ids)
        results = polled(client, names, timeout_s) if poll else client.as_completed(names, timeout_s)
        return await show_all(output, results, total=len(names))

    _with_client(output, redis_url, queue, work, interrupted="the requests go on: `busload wait ID` waits again")


def cancel(ids: Ids, redis_url: RedisUrl = REDIS_URL, queue: QueueName = QUEUE, as_json: AsJson = False) -> None:
    """Cancel requests, wherever they are.

    `cancelled`: it waited, and is answered now. `running`: its worker stops it, if it does not end first.
    `answered`: too late. `unknown`: it will be cancelled should it come. Ends with 1 for the last two.

        busload cancel 42
    """
    output = Output("busload cancel", as_json)

    async def work(client: AsyncClient) -> int:
        states = []
        for request_id in _some(ids):
            async with output.patient("asking Redis"):
                states.append(await client.cancel(request_id))
            if output.as_json:
                output.json_line({"id": request_id, "state": states[-1]})
            else:
                output.answer(f"{request_id} {states[-1]}")
        return DONE if set(states) <= {"cancelled", "running"} else BAD_NEWS

    _with_client(output, redis_url, queue, work)


def status(ids: Ids, redis_url: RedisUrl = REDIS_URL, queue: QueueName = QUEUE, as_json: AsJson = False) -> None:
    """Tell where requests are: waiting, running, answered, expired or unknown.

    `expired`: it was answered, and the result has passed its time to live. `unknown`: nobody enqueued it here, or it
    was pushed raw and no worker has looked at it yet. Ends with 1 for these two.

        busload status 42 43
    """
    output = Output("busload status", as_json)

    async def work(client: AsyncClient) -> int:
        names = _some(ids)
        async with output.patient("asking Redis"):
            found = await _now(client, names)
        for request_id, each in zip(names, found, strict=True):
            _show_status(output, request_id, each)
        return DONE if all(each.state in ("waiting", "running", "answered") for each in found) else BAD_NEWS

    _with_client(output, redis_url, queue, work)


async def show_all(output: Output, coming: AsyncGenerator[Result, None], *, total: int) -> int:
    """Print results as they come. Returns the exit code; raises at the end what the generator raises."""
    code = DONE
    with counting(output, "results", total=total) as progress:
        async with aclosing(coming) as results:
            async for each in results:
                with progress.hidden():
                    code = max(code, show_result(output, each, among_others=total > 1))
                progress.advance()
    return code


async def _now(client: AsyncClient, ids: Sequence[str]) -> list[RequestStatus]:
    """Results first, by reads that an analyst may do; where there is none, its state.

    Who may only read results is told so: raises BusloadUnavailable.
    """
    results: list[Result | None] = await client.results(ids)
    found = [RequestStatus("answered", result=each) if each else None for each in results]
    missing = [request_id for request_id, each in zip(ids, found, strict=True) if each is None]
    if missing:
        try:
            states = iter(await client.statuses(missing))
        except BusloadUnavailable as error:
            raise BusloadUnavailable(f"{missing[0]}: no result is there now, and why cannot be told: {error}") from None
        return [each or next(states) for each in found]
    return [each for each in found if each]


def _absent(request_id: str, found: RequestStatus) -> str:
    error = no_result(request_id, found.state)
    return str(error) if error else f"{request_id}: no result yet, it is {found.state}: `busload wait {request_id}`"


def _show_status(output: Output, request_id: str, found: RequestStatus) -> None:
    ended = found.result.status if found.result else None
    if output.as_json:
        record = {"id": request_id, "state": found.state, "status": ended, "batch": found.batch}
        output.json_line({name: value for name, value in record.items() if value is not None})
    else:
        output.answer(" ".join(filter(None, (request_id, found.state, ended, found.batch))))


def _some(words: Sequence[str]) -> list[str]:
    ids = ids_in(words)
    if not ids:
        raise RequestInvalid("no id was given")
    return ids


def _with_client(output: Output, redis_url: str, queue: str, work: Work, *, interrupted: str = "") -> None:
    async def all_of_it() -> int:
        async with AsyncClient(redis_url, queue=queue, partitions=partitions.get(), patience_s=PATIENCE_S) as client:
            return await work(client)

    perform(output, all_of_it, interrupted=interrupted)

"""Reads where requests are, and says what it means when a result cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import ValidationError

from busload_shared.errors import BusloadError, BusloadUnavailable, RequestUnknown, ResultExpired
from busload_shared.partitions.homes import partition_of
from busload_shared.partitions.spread import result_or_raise
from busload_shared.queue import Queue
from busload_shared.replies import RequestStatus
from busload_shared.result import Result


async def statuses(queue: Queue, request_ids: Sequence[str]) -> list[RequestStatus | BusloadError]:
    """Where each request is. A result this version cannot read is an error in its place, and spoils no other; so is
    one in a partition that does not answer. Raises BusloadUnavailable when nothing answers."""
    if len(queue.parts) > 1:
        return await _statuses_by_part(queue, request_ids)
    try:
        return list(await queue.status(request_ids))
    except ValidationError as error:
        if len(request_ids) == 1:
            return [unreadable(request_ids[0], error)]
    half = len(request_ids) // 2
    return await statuses(queue, request_ids[:half]) + await statuses(queue, request_ids[half:])


async def _statuses_by_part(queue: Queue, request_ids: Sequence[str]) -> list[RequestStatus | BusloadError]:
    groups: dict[int, list[int]] = {}
    for position, request_id in enumerate(request_ids):
        groups.setdefault(partition_of(request_id, len(queue.parts)), []).append(position)
    asking = (statuses(queue.parts[number], [request_ids[at] for at in group]) for number, group in groups.items())
    found: dict[int, RequestStatus | BusloadError] = {}
    away: list[BusloadUnavailable] = []
    for group, told in zip(groups.values(), await asyncio.gather(*asking, return_exceptions=True), strict=True):
        if isinstance(told, BusloadUnavailable):
            away.append(told)
            found |= dict.fromkeys(group, told)
        else:
            found |= zip(group, result_or_raise(told), strict=True)
    if len(away) == len(queue.parts):
        raise away[0]
    return [found[position] for position in range(len(request_ids))]


def parsed(request_id: str, stored: bytes | None) -> Result | None:
    """A stored result as a Result. Raises BusloadError for one this version cannot read."""
    try:
        return None if stored is None else Result.model_validate_json(stored)
    except ValidationError as error:
        raise unreadable(request_id, error) from None


def no_result(request_id: str, state: str) -> BusloadError | None:
    """Why there will be no result, or None while there may be one."""
    if state == "expired":
        return ResultExpired(f"{request_id}: the result has passed its time to live; submit again")
    if state == "unknown":
        return RequestUnknown(
            f"{request_id}: nobody enqueued this id here, or Redis lost it; check the id and the queue's name"
        )
    return None


def unreadable(request_id: str, error: ValidationError) -> BusloadError:
    """A result of another version or another writer."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, problem["loc"]))
    return BusloadError(
        f"{request_id}: this version cannot read the stored result ({where}: {problem['msg']}); upgrade busload here"
    )

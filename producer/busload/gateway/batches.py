"""/v1/batches: whole files of requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Final

from fastapi import APIRouter, Depends, FastAPI, Query, Request

from .access import Caller
from .batch_desk import BatchDesk
from .documented import ERRORS
from .file_store import FileStore
from .files import files_are_off
from .records import BatchBody, BatchList, BatchObject
from .settings import GatewaySettings

router: Final = APIRouter(tags=["Batches"], responses=ERRORS)


def _desk(request: Request) -> BatchDesk:
    desk: BatchDesk | None = request.app.state.batches
    if desk is None:
        raise files_are_off()
    return desk


Batches = Annotated[BatchDesk, Depends(_desk)]
"""The batches of this gateway. Refused with 404 where it has no folder for them."""


@asynccontextmanager
async def running(app: FastAPI, settings: GatewaySettings) -> AsyncGenerator[None]:
    """Run batches as long as the gateway runs."""
    store: FileStore | None = app.state.files
    if store is None:
        app.state.batches = None
        yield
        return
    desk = BatchDesk(store, app.state.keys, app.state.desks, settings)
    app.state.batches = desk
    desk.start()
    try:
        yield
    finally:
        await desk.close()


@router.post("/v1/batches")
async def create_batch(body: BatchBody, key: Caller, batches: Batches) -> BatchObject:
    """Run all lines of an uploaded file. A line that is wrong has its error in the error file, and stops nothing."""
    return batches.create(key, body)


@router.get("/v1/batches")
async def list_batches(
    key: Caller, batches: Batches, limit: Annotated[int, Query(ge=1, le=100)] = 20, after: str | None = None
) -> BatchList:
    """Your batches, the newest first; `after` is the last id of the page before."""
    found = batches.all(key)
    ids = [one.id for one in found]
    rest = found[ids.index(after) + 1 :] if after in ids else found if after is None else []
    page = rest[:limit]
    first, last = (page[0].id, page[-1].id) if page else (None, None)
    return BatchList(data=page, first_id=first, last_id=last, has_more=len(rest) > limit)


@router.get("/v1/batches/{batch_id}")
async def get_batch(batch_id: str, key: Caller, batches: Batches) -> BatchObject:
    """How far a batch is."""
    return batches.get(key, batch_id)


@router.post("/v1/batches/{batch_id}/cancel", responses={409: ERRORS[400] | {"description": "The batch is over"}})
async def cancel_batch(batch_id: str, key: Caller, batches: Batches) -> BatchObject:
    """Stop a batch. What it has answered is in its output file, what was under way in its error file."""
    return await batches.cancel(key, batch_id)

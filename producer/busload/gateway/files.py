"""/v1/files: the inputs and outputs of batches."""

from __future__ import annotations

import os
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, File, Form, Query, Request, UploadFile
from fastapi.responses import FileResponse

from ..openai_api import refusal
from .access import Caller
from .documented import ERRORS
from .file_store import FileStore
from .records import FileDeleted, FileList, FileObject, Purpose
from .refused import Refused

router: Final = APIRouter(tags=["Files"], responses=ERRORS)


def _store(request: Request) -> FileStore:
    store: FileStore | None = request.app.state.files
    if store is None:
        raise files_are_off()
    return store


def files_are_off() -> Refused:
    """404: this gateway has no folder for files."""
    message = "files and batches are off here: operations must set BUSLOAD_GATEWAY_FILES_FOLDER"
    return Refused(refusal(404, message, type="invalid_request_error", code="files_are_off"))


Store = Annotated[FileStore, Depends(_store)]
"""The folder of files. Refused with 404 where there is none."""

Limit = Annotated[int, Query(ge=1, le=10_000)]
Order = Literal["asc", "desc"]


@router.post("/v1/files")
def upload_file(
    key: Caller,
    store: Store,
    file: Annotated[UploadFile, File(description="JSON lines, one request a line")],
    purpose: Annotated[Literal["batch"], Form(description="what the file is for")],
) -> FileObject:
    """Upload the input of a batch."""
    size = file.file.seek(0, os.SEEK_END)
    file.file.seek(0)
    return store.add(key.name, (file.filename or "input.jsonl")[:256], file.file, size=size, purpose=purpose)


@router.get("/v1/files")
def list_files(
    key: Caller,
    store: Store,
    purpose: Purpose | None = None,
    limit: Limit = 10_000,
    order: Order = "desc",
    *,
    after: str | None = None,
) -> FileList:
    """Your files, the newest first; `after` is the last id of the page before."""
    files = [one for one in store.files(key.name) if purpose in (None, one.purpose)]
    if order == "desc":
        files.reverse()
    ids = [one.id for one in files]
    rest = files[ids.index(after) + 1 :] if after in ids else files if after is None else []
    page = rest[:limit]
    first, last = (page[0].id, page[-1].id) if page else (None, None)
    return FileList(data=page, first_id=first, last_id=last, has_more=len(rest) > limit)


@router.get("/v1/files/{file_id}")
def get_file(file_id: str, key: Caller, store: Store) -> FileObject:
    """What a file is."""
    return store.file(key.name, file_id)


@router.get(
    "/v1/files/{file_id}/content",
    response_class=FileResponse,
    responses={200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}},
)
def get_file_content(file_id: str, key: Caller, store: Store) -> FileResponse:
    """What is in a file."""
    record = store.file(key.name, file_id)
    return FileResponse(store.content(key.name, file_id), media_type="application/jsonl", filename=record.filename)


@router.delete("/v1/files/{file_id}")
def delete_file(file_id: str, key: Caller, store: Store) -> FileDeleted:
    """Delete a file. A batch that runs on it ends as failed."""
    store.delete(key.name, file_id)
    return FileDeleted(id=file_id)

"""Files and batches on disk: a folder for each caller, for each record a JSON file, for each file its content."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from busload_shared.errors import SettingsInvalid

from ..openai_api import refusal
from .records import BatchObject, FileObject, Purpose
from .refused import Refused, not_found, too_large
from .settings import GatewaySettings

Record = TypeVar("Record", bound=BaseModel)

_ID = re.compile(r"(file-|batch_)[0-9a-f]{24}")


class FileStore:
    """What callers uploaded and what batches wrote. One gateway holds a folder: a second one raises SettingsInvalid."""

    def __init__(self, folder: Path, settings: GatewaySettings) -> None:
        self._folder = folder
        self._most_each = settings.max_file_bytes
        self._most_together = settings.max_files_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsInvalid(f"BUSLOAD_GATEWAY_FILES_FOLDER={folder}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise SettingsInvalid(
                f"BUSLOAD_GATEWAY_FILES_FOLDER={folder}: another gateway works there; give each its own folder"
            ) from None

    def close(self) -> None:
        """Let another gateway have the folder."""
        os.close(self._lock)

    def add(self, owner: str, filename: str, source: BinaryIO, *, size: int, purpose: Purpose) -> FileObject:
        """Store an upload of `size` bytes. Raises Refused when it is too large, or all together are."""
        if size > self._most_each:
            raise too_large(self._most_each)
        if size + sum(one.bytes for one in self.files(owner)) > self._most_together:
            message = f"all files together would take more than {self._most_together} bytes; delete some first"
            raise Refused(refusal(413, message, type="invalid_request_error", code="storage_full"))
        part = self._own(owner) / f"{_new_id('file-')}.part"
        with part.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return self.take_in(owner, part, filename, purpose)

    def take_in(self, owner: str, path: Path, filename: str, purpose: Purpose) -> FileObject:
        """Make a file that stands in the folder already one of the owner's."""
        name = _new_id("file-")
        record = FileObject(
            id=name, bytes=path.stat().st_size, created_at=int(time.time()), filename=filename, purpose=purpose
        )
        path.replace(self._own(owner) / f"{name}.jsonl")
        self._write(owner, name, record)
        return record

    def file(self, owner: str, file_id: str) -> FileObject:
        """One file of the owner's. Raises Refused with 404."""
        return self._read(owner, file_id, "file-", FileObject)

    def content(self, owner: str, file_id: str) -> Path:
        """Where its content is. Raises Refused with 404."""
        return self._own(owner) / f"{self.file(owner, file_id).id}.jsonl"

    def files(self, owner: str) -> list[FileObject]:
        """All of the owner's, the oldest first."""
        return sorted(self._all(owner, "file-", FileObject), key=lambda one: (one.created_at, one.id))

    def delete(self, owner: str, file_id: str) -> None:
        """Delete a file. Raises Refused with 404."""
        record = self.file(owner, file_id)
        (self._own(owner) / f"{record.id}.json").unlink(missing_ok=True)
        (self._own(owner) / f"{record.id}.jsonl").unlink(missing_ok=True)

    def put_batch(self, owner: str, batch: BatchObject) -> None:
        """Write a batch's record, as a whole or not at all."""
        self._write(owner, batch.id, batch)

    def batch(self, owner: str, batch_id: str) -> BatchObject:
        """One batch of the owner's. Raises Refused with 404."""
        return self._read(owner, batch_id, "batch_", BatchObject)

    def batches(self, owner: str) -> list[BatchObject]:
        """All of the owner's, the newest first."""
        return sorted(self._all(owner, "batch_", BatchObject), key=lambda one: (one.created_at, one.id), reverse=True)

    def owners(self) -> list[str]:
        """Whoever has a folder."""
        return sorted(folder.name for folder in self._folder.iterdir() if folder.is_dir())

    def work_file(self, owner: str, batch_id: str, kind: str) -> Path:
        """Where a batch that runs writes its `output` or its `errors`."""
        return self._own(owner) / f"{batch_id}.{kind}"

    def _own(self, owner: str) -> Path:
        folder = self._folder / owner
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _write(self, owner: str, name: str, record: BaseModel) -> None:
        part = self._own(owner) / f"{name}.json.part"
        with part.open("w", encoding="utf-8") as target:
            target.write(record.model_dump_json())
            target.flush()
            os.fsync(target.fileno())
        part.replace(part.with_suffix(""))

    def _read(self, owner: str, name: str, kind: str, model: type[Record]) -> Record:
        if name.startswith(kind) and _ID.fullmatch(name):
            try:
                return model.model_validate_json((self._own(owner) / f"{name}.json").read_bytes())
            except FileNotFoundError:
                pass
        raise not_found(f"there is no {kind[:-1]} {name[:64]!r}; see that its id is right and yours")

    def _all(self, owner: str, kind: str, model: type[Record]) -> list[Record]:
        found = []
        for path in self._own(owner).glob(f"{kind}*.json"):
            try:
                found.append(model.model_validate_json(path.read_bytes()))
            except (FileNotFoundError, ValidationError):  # deleted meanwhile, or not ours
                continue
        return found


def new_batch_id() -> str:
    """96 random bits."""
    return _new_id("batch_")


def _new_id(kind: str) -> str:
    return kind + secrets.token_hex(12)

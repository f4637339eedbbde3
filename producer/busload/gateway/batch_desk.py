"""All batches of this gateway: a few run at a time, the others wait, and those a stop interrupted go on."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from busload_shared.errors import BusloadError
from busload_shared.replicated import Copies

from ..openai_api import refusal
from ..wiring import Address, Wiring
from .batch_lines import BatchLines
from .batch_run import BatchRun
from .desks import Desk, Desks, partitions_of
from .file_store import FileStore, new_batch_id
from .keys import Key, KeyRing
from .records import OVER, BatchBody, BatchObject
from .refused import Refused
from .settings import GatewaySettings

log: Final = logging.getLogger("busload.gateway")

WINDOW_S = 24 * 3600


class BatchDesk:
    """Makes, runs and cancels batches. Belongs to one event loop; `start` it, and `close` it at the end."""

    def __init__(self, store: FileStore, keys: KeyRing, desks: Desks, settings: GatewaySettings) -> None:
        self._store = store
        self._keys = keys
        self._desks = desks
        self._settings = settings
        self._room = asyncio.Semaphore(settings.batches_at_once)
        self._runs: dict[str, tuple[BatchRun, asyncio.Task[None]]] = {}

    def start(self) -> None:
        """Go on with all that are not over. One whose key is gone waits for the start after it is back."""
        known = {key.name: key for key in self._keys.keys}
        for owner in self._store.owners():
            for batch in reversed(self._store.batches(owner)):
                if batch.status in OVER:
                    continue
                if owner in known:
                    self._start(known[owner], batch)
                else:
                    log.warning("batch %s waits for the key %s, which is not in the keys file", batch.id, owner)

    async def close(self) -> None:
        """Stop; what is under way goes on in the queue, and is found by the next start."""
        tasks = [task for _, task in self._runs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._store.close()

    def create(self, key: Key, body: BatchBody) -> BatchObject:
        """A new batch. Raises Refused for a file that is not there, or none to run."""
        record = self._store.file(key.name, body.input_file_id)
        if record.purpose != "batch" or not record.bytes:
            message = "input_file_id: give a file that is not empty and was uploaded for the purpose 'batch'"
            raise Refused(refusal(400, message, type="invalid_request_error", param="input_file_id"))
        now = int(time.time())
        batch = BatchObject(
            id=new_batch_id(),
            endpoint=body.endpoint,
            input_file_id=body.input_file_id,
            completion_window=body.completion_window,
            status="validating",
            created_at=now,
            expires_at=now + WINDOW_S,
            metadata=body.metadata,
        )
        self._store.put_batch(key.name, batch)
        self._start(key, batch)
        return batch

    def get(self, key: Key, batch_id: str) -> BatchObject:
        """One batch as it is now. Raises Refused with 404."""
        stored = self._store.batch(key.name, batch_id)
        running = self._runs.get(batch_id)
        return stored if running is None else running[0].batch

    def all(self, key: Key) -> list[BatchObject]:
        """All of this caller's, the newest first."""
        return [self.get(key, batch.id) for batch in self._store.batches(key.name)]

    async def cancel(self, key: Key, batch_id: str) -> BatchObject:
        """Stop a batch; what it has answered stays. Raises Refused for one that is over."""
        batch = self.get(key, batch_id)
        running = self._runs.get(batch_id)
        if running is None or batch.status in OVER:
            message = f"the batch {batch_id} is {batch.status} already"
            raise Refused(refusal(409, message, type="invalid_request_error", code="batch_is_over"))
        return await running[0].cancel()

    def _start(self, key: Key, batch: BatchObject) -> None:
        desk = self._desks.of(key.queue)
        lines = BatchLines(key, batch.endpoint, self._settings)
        run = BatchRun(self._store, key.name, batch, lines, desk)
        task = asyncio.create_task(self._run(run, desk))
        self._runs[batch.id] = (run, task)
        task.add_done_callback(lambda _: self._runs.pop(batch.id, None))

    async def _run(self, run: BatchRun, desk: Desk) -> None:
        async with self._room:
            wiring = Wiring(self._address(desk.queue))
            try:
                await run.run(wiring, in_flight=self._settings.batch_in_flight)
            except BusloadError as error:
                run.fail("input_file_gone" if isinstance(error, Refused) else "cannot_run", str(error))
            except Exception:
                log.exception("batch %s broke", run.batch.id)
                run.fail("internal_error", "the gateway broke; its log tells why")
            finally:
                await wiring.close()

    def _address(self, queue: str) -> Address:
        chosen = self._settings
        return Address(
            chosen.redis_url.get_secret_value(),
            queue,
            chosen.max_queue_length,
            chosen.result_ttl_s,
            chosen.patience_s,
            Copies(0, 1000),
            partitions_of(queue, chosen),
        )

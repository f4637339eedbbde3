"""celery-batches: Celery on Redis with one prefork process; results marked one by one, as its documentation has it."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery, signals
from celery_batches import Batches, SimpleRequest
from handler import Handler, batch_size, window_ms

app = Celery("peers", broker=os.environ["PEERS_REDIS"], backend=os.environ["PEERS_REDIS"])
app.conf.update(
    worker_prefetch_multiplier=0,
    worker_send_task_events=False,
    task_send_sent_event=False,
    broker_connection_retry_on_startup=True,
)
handlers: list[Handler] = []


@signals.worker_ready.connect
def tell(**_: object) -> None:
    """The benchmark waits for this file."""
    Path(os.environ["PEERS_READY"]).write_text("ready")


@app.task(base=Batches, name="generate", flush_every=batch_size(), flush_interval=window_ms() / 1000)
def generate(requests: list[SimpleRequest]) -> None:
    if not handlers:
        handlers.append(Handler())
    try:
        texts = handlers[0]([request.args[0] for request in requests])
    except ValueError as error:
        for request in requests:
            app.backend.mark_as_failure(request.id, error)  # it raises if given a SimpleRequest: that has no errbacks
        return
    for request, text in zip(requests, texts, strict=True):
        app.backend.mark_as_done(request.id, text, request=request)

"""Requests to a deployment through each of its doors, and the account of what became of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import get_args

import httpx
from tests.compose.stack import QUEUE, Stack

from busload import Client
from busload_shared.request import Request
from busload_shared.result import Result, Status

PATIENCE_S = 180.0
"""For an answer: two cores run up to four engines."""

SHORT = {"max_tokens": 4, "temperature": 0.0, "ignore_eos": True}
LONG = {"max_tokens": 400, "temperature": 0.0, "ignore_eos": True}


def prompt_of(name: str) -> str:
    """A prompt of its own for each request."""
    return f"The number {name} is"


class Ledger:
    """Every id that was asked, and the first result that was seen of each."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.asked: list[str] = []
        self.seen: dict[str, Result] = {}

    @contextmanager
    def client(self, user: str = "producer") -> Iterator[Client]:
        """The Python client, from this machine."""
        with Client(self._stack.redis_url(user), queue=QUEUE, patience_s=60) as client:
            yield client

    def by_gateway(self, names: Sequence[str]) -> None:
        """Calls of OpenAI's interface, eight at once, each answered with its text."""
        self.asked += names
        url = f"http://{self._stack.address('gateway', 8000)}/v1/completions"

        def ask(name: str) -> None:
            body = {"prompt": prompt_of(name), **SHORT}
            reply = httpx.post(url, json=body, headers={"Idempotency-Key": name}, timeout=PATIENCE_S)
            assert reply.status_code == 200, reply.text
            assert reply.json()["choices"][0]["text"]

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(ask, names))

    def by_client(self, names: Sequence[str], **fields: object) -> None:
        """The Python client's submit."""
        self.asked += names
        with self.client() as client:
            client.submit_many(
                Request.model_validate({"id": name, "prompt": prompt_of(name), **SHORT, **fields}) for name in names
            )

    def by_redis_cli(self, names: Sequence[str]) -> None:
        """A bare LPUSH from a container, as any language can."""
        self.asked += names
        elements = [json.dumps({"id": name, "prompt": prompt_of(name), **SHORT}) for name in names]
        password = "REDISCLI_AUTH=busload-producer-development"
        client = ["redis-cli", "--user", "producer"]
        self._stack.compose("exec", "-T", "-e", password, "redis", *client, "LPUSH", QUEUE, *elements)

    @contextmanager
    def load(self, prefix: str, *, every_s: float = 0.2, at_most: int = 900) -> Iterator[None]:
        """A steady stream of requests through the client while the block runs."""
        over = threading.Event()
        failures: list[BaseException] = []

        def send() -> None:
            try:
                with self.client() as client:
                    for number in range(at_most):
                        name = f"{prefix}-{number}"
                        client.submit(Request.model_validate({"id": name, "prompt": prompt_of(name), **SHORT}))
                        self.asked.append(name)
                        if over.wait(every_s):
                            return
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=send, name=prefix)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(PATIENCE_S)
        assert not failures, failures

    def settle(self) -> list[Result]:
        """Wait for every answer that is still owed. Returns those."""
        owed = [name for name in self.asked if name not in self.seen]
        with self.client() as client:
            for result in client.as_completed(owed, timeout_s=PATIENCE_S):
                self.seen[result.id] = result
        found = [self.seen[name] for name in owed]
        assert {result.status for result in found} <= {"succeeded"}
        return found

    def check(self) -> None:
        """All that was ever asked is answered once: nothing is left anywhere, each result is the one first seen, and
        the queue counted as many as were asked."""
        assert len(self.asked) == len(set(self.asked))
        with self.client("operator") as client:
            now = client.results(self.asked)
            info = client.queue_info()
        assert now == [self.seen[name] for name in self.asked]
        assert (info.waiting, info.retry, info.inflight, info.dead) == (0, 0, 0, 0)
        assert sum(info.counters.get(status, 0) for status in get_args(Status)) == len(now)

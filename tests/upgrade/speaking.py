"""Run under either version: writes one of every kind of message, or reads those of the other.

`speaking.py write` prints lines `kind JSON`; `speaking.py read` reads such lines and prints what it understood.
What stands here is known to both versions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from busload_shared.element import Element
from busload_shared.replies import DeadLetter, WorkerInfo
from busload_shared.request import parse_request
from busload_shared.result import Result

REQUEST = {
    "id": "r-1", "messages": [{"role": "user", "content": "Why?", "name": "ada"}], "max_tokens": 8, "min_tokens": 1,
    "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": -5, "stop": ["a"], "stop_token_ids": [1],
    "presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.1, "n": 2, "logprobs": 3,
    "ignore_eos": True, "regex": "a+", "priority": 7, "ttl_s": 30.0, "route": "chat", "return_token_ids": True,
    "created_at": 1.5, "metadata": {"customer": [17, None]}, "trace": {"traceparent": "00-0-0-01", "tracestate": "a=b"},
}  # fmt: skip
RESULT = {
    "id": "r-1", "status": "succeeded", "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    "outputs": [{
        "index": 0, "text": "ä", "finish_reason": "stop", "stop_reason": "a", "token_ids": [5, 6],
        "logprobs": [[{"token_id": 5, "token": "ä", "logprob": -0.5, "rank": 1}]],
    }],
    "batch": {"id": "b", "size": 2, "position": 1, "trigger": "retry", "tokens": 18},
    "timing": {
        "enqueued_ms": 1.0, "claimed_ms": 2.0, "started_ms": 3.0, "finished_ms": 4.0, "waited_ms": 2.0, "run_ms": 1.0,
        "held_ms": 0.5, "proof": {"spread_ms": 0.0, "preemptions": 0, "gap_ms": 0.1},
    },
    "worker": "w", "attempts": 2, "metadata": {"customer": 17}, "trace": {"traceparent": "00-0-0-01"},
}  # fmt: skip
FAILURE = {"id": "r-2", "status": "failed", "error": {"code": "poison", "message": "twice"}, "attempts": 3}
WORKER = {
    "name": "w", "state": "ready", "engine": "fake", "model": "m", "version": "1", "pid": 7, "max_batch_size": 8,
    "max_wait_ms": 20.5, "batch": "b", "batch_size": 2, "batches_done": 3, "rows_done": 4, "rows_per_s": 5.5,
    "engine_restarts": 1, "leases_lost": 1, "proofs_broken": 1, "out_of_memory": 1, "looked_ms": 6.5,
    "curve": {"overhead_ms": 1.0, "prompt_ms": 0.5, "step_ms": 2.0, "token_ms": 0.1},
}  # fmt: skip
LETTER = {
    "id": None, "code": "poison", "message": "m", "at_ms": 1.0, "enqueued_ms": 0.5, "attempts": 2, "batch": "b",
    "worker": "w", "payload": "eA==", "payload_is_base64": True,
}  # fmt: skip
ELEMENT = "@1700000000000.250 2 1 token r-1 " + json.dumps({"id": "r-1", "prompt": "a b"})

MESSAGES: list[tuple[str, str]] = [
    *((kind, json.dumps(body, ensure_ascii=False)) for kind, body in (
        ("request", REQUEST), ("result", RESULT), ("result", FAILURE), ("worker", WORKER), ("letter", LETTER),
    )),
    ("element", ELEMENT),
]  # fmt: skip


def _element(text: str) -> str:
    element = Element.parse(text.encode(), latest_ms=2e12)
    return json.dumps([*element[:-1], element.payload.decode()])


READERS: dict[str, Callable[[str], str]] = {
    "request": lambda text: parse_request(text.encode()).model_dump_json(),
    "result": lambda text: Result.model_validate_json(text).model_dump_json(),
    "worker": lambda text: WorkerInfo.model_validate_json(text).model_dump_json(),
    "letter": lambda text: DeadLetter.model_validate_json(text).model_dump_json(),
    "element": _element,
}


def write() -> None:
    """As this version's own code writes them on the wire."""
    writers: dict[str, Callable[[str], str]] = {
        "request": lambda text: parse_request(text.encode()).model_dump_json(exclude_defaults=True),
        "result": lambda text: Result.model_validate_json(text).model_dump_json(exclude_none=True),
        "worker": lambda text: WorkerInfo.model_validate_json(text).model_dump_json(),
        "letter": lambda text: DeadLetter.model_validate_json(text).model_dump_json(),
    }
    for kind, text in MESSAGES:
        print(kind, writers[kind](text) if kind in writers else text)


def read() -> None:
    """What is understood of each, as JSON."""
    for line in sys.stdin:
        kind, text = line.rstrip("\n").split(" ", 1)
        print(READERS[kind](text))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]]()

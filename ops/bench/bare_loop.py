"""The bare unsafe loops that Busload is measured against: they form batches and keep no promise at all.

A worker that dies loses its batch, a bad request stops it, nobody can ask where a request is. They do what any
design on Redis must do at least: push, pop in batches, parse, answer, store each result with a time to live, tell
the client. `pipeline` writes a batch's results through redis-py's pipeline, as its manual has it; `packed` sends
commands packed in C straight to the socket, with nothing left to save that a Python program could.
"""

from __future__ import annotations

import json
import sys
import time

import hiredis
import redis

WAITING, DONE = "bare:waiting", "bare:done"


def worker(url: str, batch: int, style: str) -> None:
    """Answer until killed."""
    client = redis.Redis.from_url(url)
    send = _packed if style == "packed" else _pipelined
    while True:
        bodies = client.rpop(WAITING, batch) or [client.brpop(WAITING)[1]]
        ids = [json.loads(body)["id"] for body in bodies]
        send(client, [(name, json.dumps({"id": name, "text": "echo " + name, "batch": len(ids)})) for name in ids])


def _pipelined(client: redis.Redis, answers: list[tuple[str, str]]) -> None:
    with client.pipeline(transaction=False) as pipe:
        for name, answer in answers:
            pipe.set("bare:result:" + name, answer, ex=60)
        pipe.lpush(DONE, *[name for name, _ in answers])
        pipe.execute()


def _packed(client: redis.Redis, answers: list[tuple[str, str]]) -> None:
    connection = client.connection_pool.get_connection()
    commands = [hiredis.pack_command(("SET", "bare:result:" + name, answer, "EX", "60")) for name, answer in answers]
    commands.append(hiredis.pack_command(("LPUSH", DONE, *[name for name, _ in answers])))
    connection.send_packed_command([b"".join(commands)])
    for _ in commands:
        connection.read_response()
    client.connection_pool.release(connection)


def closed_loop(url: str, *, outstanding: int, prompt: str, seconds: float) -> float:
    """Keep `outstanding` requests under way. Returns requests per second."""
    client = redis.Redis.from_url(url)
    client.delete(WAITING, DONE)
    made = 0

    def push(count: int) -> None:
        nonlocal made
        client.lpush(WAITING, *[json.dumps({"id": str(made + i), "prompt": prompt}) for i in range(count)])
        made += count

    push(outstanding)
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        ids = client.rpop(DONE, outstanding) or [client.brpop(DONE)[1]]
        for answer in client.mget([b"bare:result:" + name for name in ids]):
            json.loads(answer)
        done += len(ids)
        push(len(ids))
    rate = done / (time.perf_counter() - began)
    client.close()
    return rate


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), sys.argv[3])

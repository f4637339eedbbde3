"""The bare unsafe loop that Busload is measured against: it forms batches and keeps no promise at all.

A worker that dies loses its batch, a bad request stops it, nobody can ask where a request is. It does what any
design on Redis must do at least: push, pop in batches, parse, answer, store each result with a time to live, tell
the client; with nothing left to save that a Python program could.
"""

from __future__ import annotations

import json
import sys
import time

import hiredis
import redis

WAITING, DONE = "bare:waiting", "bare:done"


def worker(url: str, batch: int) -> None:
    """Answer until killed. A batch's commands are packed in C and sent at once: a redis-py pipeline costs twice."""
    client = redis.Redis.from_url(url)
    connection = client.connection_pool.get_connection()
    while True:
        bodies = client.rpop(WAITING, batch) or [client.brpop(WAITING)[1]]
        commands, ids = [], []
        for body in bodies:
            name = json.loads(body)["id"]
            ids.append(name)
            answer = json.dumps({"id": name, "text": "echo " + name, "batch": len(bodies)})
            commands.append(hiredis.pack_command(("SET", "bare:result:" + name, answer, "EX", "60")))
        commands.append(hiredis.pack_command(("LPUSH", DONE, *ids)))
        connection.send_packed_command([b"".join(commands)])
        for _ in commands:
            connection.read_response()


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
    worker(sys.argv[1], int(sys.argv[2]))

"""`busload migrate` where nothing is to do, which is every queue of this version."""

from __future__ import annotations

from busload_shared.queue import Queue

from .conftest import CommandLine


def test_a_queue_of_this_versions_layout_needs_nothing(busload: CommandLine) -> None:
    busload.enqueue("a")
    ended = busload("migrate")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "busload:default has layout 1, the newest that this version knows: nothing to do\n"
    assert busload("migrate", "--json").json == [{"queue": "busload:default", "layout": 1, "newest": 1, "steps": []}]


def test_a_queue_of_a_newer_layout_is_left_alone(busload: CommandLine) -> None:
    async def newer(queue: Queue) -> None:
        await queue.redis.set(queue.keys.layout, "1>2")

    busload.on_queue(newer)
    ended = busload("migrate", "--yes")
    assert (ended.code, ended.out) == (3, "")
    assert "have layout 2, and this version of Busload knows no more than 1: upgrade it" in ended.err


def test_every_partition_is_looked_at(busload: CommandLine) -> None:
    lines = busload("--partitions", "3", "migrate", "--json").json
    assert [line["queue"] for line in lines] == ["busload:default", "busload:default/1", "busload:default/2"]

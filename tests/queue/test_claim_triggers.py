"""When a batch leaves, and who is in it."""

from __future__ import annotations

from tests.conftest import START_MS
from tests.queue.steps import board, ids, later, look, push, submit

from busload_shared.queue import Queue
from busload_shared.replies import Claim, NotYet


async def trigger(queue: Queue, batch: str, *, cap: int = 8, wait: float = 50) -> str:
    claim = await look(queue, batch, cap=cap, wait=wait)
    return claim.trigger if isinstance(claim, Claim) else ""


async def test_nobody_waits_so_nothing_leaves_and_nothing_is_due(queue: Queue) -> None:
    nothing = await look(queue, "b1")
    assert nothing == NotYet(START_MS, 0, None)
    assert await look(queue, "b1", drain=True) == nothing


async def test_a_batch_leaves_one_window_after_its_first_passenger(queue: Queue) -> None:
    await submit(queue, "a")
    later(queue, 49.9)
    assert await trigger(queue, "b1", wait=50) == ""
    later(queue, 0.1)
    assert await trigger(queue, "b1", wait=50) == "timeout"


async def test_two_who_come_within_a_window_ride_together_one_window_after_the_first(queue: Queue) -> None:
    """B1: after an idle time too."""
    later(queue, 500)
    await submit(queue, "a")
    assert await trigger(queue, "b1") == ""
    later(queue, 10)
    await submit(queue, "b")
    later(queue, 39)
    assert await trigger(queue, "b1") == ""
    later(queue, 1)
    assert ids(await look(queue, "b1")) == ["a", "b"]


async def test_a_full_bus_leaves_at_once(queue: Queue) -> None:
    """B2."""
    await submit(queue, "a", "b", "c")
    assert await trigger(queue, "b1", cap=4, wait=1000) == ""
    await submit(queue, "d")
    claim = await look(queue, "b1", cap=4, wait=1000)
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim)) == ("full", ["a", "b", "c", "d"])


async def test_who_waited_while_all_were_busy_leaves_with_no_new_window(queue: Queue) -> None:
    """B3."""
    await submit(queue, "a")
    later(queue, 150)
    assert await trigger(queue, "b1", wait=50) == "timeout"


async def test_newcomers_do_not_restart_the_window(queue: Queue) -> None:
    """B4."""
    left = []
    for name in "abcd":
        await submit(queue, name)
        left += ids(await look(queue, name, cap=100, wait=50))
        later(queue, 40)
    assert left == ["a", "b", "c"]


async def test_leftovers_keep_their_age(queue: Queue) -> None:
    """B7."""
    await submit(queue, *"0123456789")
    later(queue, 30)
    assert len(ids(await look(queue, "b1", cap=8))) == 8
    waiting = await look(queue, "b2", cap=8)
    assert isinstance(waiting, NotYet)
    assert (waiting.depth, waiting.due_in_ms) == (2, 20)
    await submit(queue, "new")
    later(queue, 20)
    claim = await look(queue, "b2", cap=8)
    assert isinstance(claim, Claim)
    assert [(s.element.id, s.element.arrival_ms - START_MS) for s in claim.seats] == [
        ("8", 0), ("9", 0), ("new", 30),
    ]  # fmt: skip


async def test_a_flush_of_one_leaves_no_count_behind(queue: Queue) -> None:
    """B8: one more after a flush is not the second of a batch of two."""
    await submit(queue, "a")
    later(queue, 50)
    assert await trigger(queue, "b1", cap=2) == "timeout"
    await submit(queue, "b")
    assert await trigger(queue, "b2", cap=2) == ""


async def test_500_board_in_the_order_they_came(queue: Queue) -> None:
    """B12: raw pushes and clients' alike."""
    names = [str(i) for i in range(500)]
    for start in range(0, 500, 50):
        half = start + 25
        await submit(queue, *names[start:half])
        await push(queue, *names[half : start + 50])
    boarded: list[str] = []
    for batch in range(16):
        boarded += ids(await board(queue, f"b{batch}", cap=32))
    assert boarded == names


async def test_a_batch_is_never_larger_than_its_cap(queue: Queue) -> None:
    """B9: retries, what was handed back, and one large submission come due together."""
    await submit(queue, *(str(i) for i in range(30)))
    for batch in ("b1", "b2"):
        await board(queue, batch, cap=8)
    await queue.release("b1")
    await queue.hand_back("b2")
    later(queue, 1000)
    sizes = []
    while isinstance(claim := await look(queue, f"c{len(sizes)}", cap=8), Claim):
        sizes.append(len(claim.seats))
    assert max(sizes) == 8
    assert sum(sizes) == 30


async def test_a_group_of_suspects_larger_than_the_cap_leaves_in_parts(queue: Queue) -> None:
    """B9: the worker that runs it again has a smaller cap than the one that died."""
    await submit(queue, *(str(i) for i in range(20)))
    await board(queue, "b1", cap=20)
    await queue.release("b1")
    parts = [ids(await look(queue, f"c{i}", cap=4)) for i in range(6)]
    assert [len(part) for part in parts] == [4, 4, 2, 4, 4, 2]
    assert [name for part in parts for name in part] == [str(i) for i in range(20)]


async def test_a_drain_takes_whoever_waits(queue: Queue) -> None:
    await submit(queue, "a")
    claim = await look(queue, "b1", drain=True)
    assert isinstance(claim, Claim)
    assert (claim.trigger, ids(claim)) == ("drain", ["a"])


async def test_a_claim_tells_how_many_still_wait_and_when_it_was_made(queue: Queue) -> None:
    await submit(queue, *"abcde")
    later(queue, 7)
    claim = await board(queue, "b1", cap=2)
    assert (claim.depth, claim.now_ms, claim.claimed_ms) == (3, START_MS + 7, START_MS + 7)


async def test_not_yet_tells_the_time_left_to_the_microsecond(queue: Queue) -> None:
    await submit(queue, "a")
    later(queue, 0.25)
    waiting = await look(queue, "b1", wait=5)
    assert isinstance(waiting, NotYet)
    assert waiting.due_in_ms == 4.75


async def test_a_window_of_5_ms_works(queue: Queue) -> None:
    """Q44."""
    await submit(queue, "a")
    later(queue, 5)
    assert await trigger(queue, "b1", wait=5) == "timeout"


async def test_a_second_worker_finds_the_window_where_the_first_left_it(queue: Queue) -> None:
    """Nothing is held while waiting: two workers share one window and no half batches."""
    await submit(queue, "a")
    assert await trigger(queue, "w1") == ""
    assert await trigger(queue, "w2") == ""
    await submit(queue, "b")
    later(queue, 50)
    assert ids(await look(queue, "w2")) == ["a", "b"]
    assert ids(await look(queue, "w1")) == []


async def test_a_busy_worker_takes_nobody_so_a_free_one_gets_all(queue: Queue) -> None:
    """Q42."""
    await submit(queue, "a")
    await board(queue, "busy")
    await submit(queue, "b", "c")
    assert ids(await board(queue, "free")) == ["b", "c"]

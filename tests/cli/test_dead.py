"""`busload dead`: letters are found, shown, put back and dropped."""

from __future__ import annotations

import pytest
from tests.queue.steps import board, bury, ids, push

from busload.operating import dead_letters
from busload.operating.dead_letters import Handled, act_on_all, with_code
from busload_shared.queue import Queue

from .conftest import CommandLine


def waiting_ids(busload: CommandLine) -> list[str]:
    async def work(queue: Queue) -> list[str]:
        return ids(await board(queue, "look"))

    return busload.on_queue(work)


def test_the_newest_are_listed_first_and_counted(busload: CommandLine) -> None:
    busload.bury("a", "b", "c")
    ended = busload("dead", "list", "--json", "--count", "2")
    assert [each["id"] for each in ended.json] == ["c", "b"]
    assert ended.err == "2 of 3 dead letters\n"
    table = busload("dead", "list")
    assert [line.split()[1] for line in table.out.splitlines()] == ["id", "c", "b", "a"]
    assert "died alone twice" in table.out


def test_only_those_with_a_code_are_listed(busload: CommandLine) -> None:
    busload.bury("a")
    assert busload("dead", "list", "--code", "poison", "--json").json[0]["id"] == "a"
    assert busload("dead", "list", "--code", "too_heavy", "--json").out == ""


def test_a_letter_is_shown_by_its_id_and_by_its_own_name(busload: CommandLine) -> None:
    busload.bury("a")
    record = busload("dead", "show", "a", "--json").json[0]
    assert record["payload"].startswith('{"id": "a"')
    by_name = busload("dead", "show", record["letter"])
    assert by_name.code == 0
    assert "poison: died alone twice" in by_name.out
    assert record["payload"] in by_name.out


def test_a_letter_without_an_id_can_be_named_too(busload: CommandLine) -> None:
    async def junk(queue: Queue) -> None:
        await push(queue, b"not JSON")
        await bury(queue, await board(queue, "b1"))

    busload.on_queue(junk)
    name = busload("dead", "list", "--json").json[0]["letter"]
    assert busload("dead", "purge", name).out == "1 dead letter dropped\n"
    assert busload("dead", "list", "--json").out == ""


@pytest.mark.parametrize("command", ["show", "redrive", "purge"])
def test_a_name_that_none_has_is_bad_news_and_changes_nothing(busload: CommandLine, command: str) -> None:
    busload.bury("a")
    ended = busload("dead", command, *(["nobody"] if command == "show" else ["a", "nobody"]))
    assert (ended.code, ended.out) == (1, "")
    assert "nobody" in ended.err
    assert len(busload("dead", "list", "--json").json) == 1


def test_the_named_are_put_back_and_no_others(busload: CommandLine) -> None:
    busload.bury("a", "b", "c")
    ended = busload("dead", "redrive", "a", "c", "--json")
    assert (ended.code, ended.json) == (0, [{"redriven": 2, "gone": 0}])
    assert [each["id"] for each in busload("dead", "list", "--json").json] == ["b"]
    assert waiting_ids(busload) == ["a", "c"]  # the oldest first


def test_all_are_put_back_the_oldest_first(busload: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    busload.bury("a", "b", "c", "d", "e")
    assert busload("dead", "redrive", "--all", "--yes").out == "5 dead letters redriven\n"
    assert waiting_ids(busload) == ["a", "b", "c", "d", "e"]


def test_without_a_terminal_to_ask_on_all_needs_yes(busload: CommandLine) -> None:
    busload.bury("a")
    for command in ("redrive", "purge"):
        ended = busload("dead", command, "--all")
        assert (ended.code, ended.out) == (2, "")
        assert "--yes" in ended.err
        assert busload("dead", command).code == 2
    assert len(busload("dead", "list", "--json").json) == 1


def test_purging_all_drops_what_is_no_letter_too(busload: CommandLine) -> None:
    busload.bury("a", "b")

    async def junk(queue: Queue) -> None:
        await queue.redis.rpush(queue.keys.dead, b"no letter")

    busload.on_queue(junk)
    assert busload("dead", "purge", "--all", "--yes", "--json").json == [{"dropped": 3, "gone": 0}]
    assert busload("queue", "--json").json[0]["dead"] == 0


def test_purging_by_code_leaves_the_others(busload: CommandLine) -> None:
    busload.bury("a", "b")
    assert busload("dead", "purge", "--all", "--yes", "--code", "too_heavy").out == "0 dead letters dropped\n"
    assert busload("dead", "purge", "--all", "--yes", "--code", "poison").out == "2 dead letters dropped\n"


async def test_letters_that_die_again_meanwhile_are_left_alone(
    any_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    queue, told = any_queue, []
    for name in "abc":
        await queue.redis.lpush(queue.keys.queue, f'{{"id":"{name}","prompt":"x"}}')
        await bury(queue, await board(queue, name))

    async def dies_again(letter: dead_letters.DeadLetter) -> bool:
        done = await queue.redrive(letter)
        await bury(queue, await board(queue, f"again-{letter.id}"))
        return done

    assert await act_on_all(queue, dies_again, with_code(None), total=3, tell=told.append) == Handled(3, 0)
    assert told == [1, 2, 3]
    assert {letter.id for letter in await queue.dead_letters()} == {"a", "b", "c"}


async def test_what_is_no_letter_stops_nothing(any_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    queue = any_queue
    for name in "abc":
        await queue.redis.lpush(queue.keys.queue, f'{{"id":"{name}","prompt":"x"}}')
        await bury(queue, await board(queue, name))
        await queue.redis.lpush(queue.keys.dead, *[b"no letter"] * 3)
    handled = await act_on_all(queue, queue.redrive, with_code(None), total=12, tell=lambda _: None)
    assert handled == Handled(3, 0)
    assert await queue.dead_letters() == []


async def test_a_letter_is_dropped_once_and_its_result_stays(any_queue: Queue) -> None:
    await any_queue.redis.lpush(any_queue.keys.queue, '{"id":"a","prompt":"x"}')
    await bury(any_queue, await board(any_queue, "b1"))
    (letter,) = await any_queue.dead_letters()
    assert await any_queue.drop_dead(letter)
    assert not await any_queue.drop_dead(letter)
    assert [found.state for found in await any_queue.status(["a"])] == ["answered"]

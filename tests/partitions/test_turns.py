"""Which partition a worker looks at next: pure, and without a clock."""

from __future__ import annotations

from zlib import crc32

import pytest

from busload_shared.errors import SettingsInvalid
from busload_shared.partitions.homes import batch_in, partition_names, partition_of, partition_of_batch
from busload_shared.partitions.spread import share_of
from busload_shared.partitions.turns import Turns, attended


def test_a_request_is_in_the_partition_that_crc32_of_its_id_says() -> None:
    assert crc32(b"42") == 841265288, "as every language has it"
    assert [partition_of("42", count) for count in (1, 2, 4, 8, 5)] == [0, 0, 0, 0, 3]
    assert partition_of("größe", 8) == crc32("größe".encode()) % 8


def test_partition_0_is_the_queues_own_list() -> None:
    assert partition_names("busload:default", 3) == ("busload:default", "busload:default/1", "busload:default/2")
    assert partition_names("busload:default", 1) == ("busload:default",)


@pytest.mark.parametrize("count", [0, -1, 65])
def test_a_count_that_is_none_is_refused(count: int) -> None:
    with pytest.raises(SettingsInvalid, match=f"partitions={count}"):
        partition_names("q", count)


def test_a_batchs_name_tells_its_partition_for_ever() -> None:
    assert partition_of_batch(batch_in("3f", 5), 8) == 5
    assert partition_of_batch("3f", 8) == 0, "a worker of an ordinary queue claimed it"
    assert partition_of_batch("7", 8) == 0
    assert partition_of_batch("3f/9", 8) == 0
    assert partition_of_batch("3f/²", 8) == 0


def test_shares_of_a_limit_add_up_to_it_at_least_and_are_never_nothing() -> None:
    assert [share_of(10, 4), share_of(100_000, 8), share_of(1, 8)] == [3, 12_500, 1]


def test_at_first_each_worker_begins_where_it_was_told_and_goes_round() -> None:
    assert Turns(4, start=2).order() == [2, 3, 0, 1]


def test_the_partition_whose_oldest_may_have_come_first_is_looked_at_first() -> None:
    turns = Turns(3, start=0)
    turns.waiting_since(0, 30.0)
    turns.waiting_since(1, 10.0)
    turns.waiting_since(2, 20.0)
    assert turns.order() == [1, 2, 0]


def test_a_claim_moves_its_partition_behind_those_who_wait_longer() -> None:
    turns = Turns(2, start=0)
    turns.waiting_since(0, 10.0)
    turns.waiting_since(1, 11.0)
    turns.claimed(0, 12.0)
    assert turns.order() == [1, 0]


def test_a_claim_of_which_nothing_can_be_told_leaves_the_moment_as_it_is() -> None:
    turns = Turns(2, start=0)
    turns.waiting_since(0, 10.0)
    turns.waiting_since(1, 11.0)
    turns.claimed(0, None)
    assert turns.order() == [0, 1]


def test_no_moment_ever_goes_back_by_a_claim() -> None:
    turns = Turns(2, start=0)
    turns.waiting_since(0, 10.0)
    turns.waiting_since(1, 9.0)
    turns.claimed(0, 1.0)
    assert turns.order() == [1, 0]


def test_a_partition_that_rang_comes_before_older_ones() -> None:
    turns = Turns(3, start=0)
    for number in range(3):
        turns.waiting_since(number, float(number))
    turns.rang(2)
    assert turns.order() == [2, 0, 1]
    turns.waiting_since(2, 5.0)
    assert turns.order() == [0, 1, 2], "it was looked at"


def test_whoever_was_passed_over_for_twice_as_many_batches_as_there_are_partitions_comes_first() -> None:
    """A forged stamp of the year 1970 keeps its partition in front for as long as it likes, and nobody else starves."""
    turns = Turns(2, start=0)
    for number, since in enumerate([0.0, 50.0]):
        turns.waiting_since(number, since)
    looked = []
    for _ in range(10):
        looked.append(turns.order()[0])
        turns.claimed(looked[-1], None)
    assert looked == [0, 0, 0, 0, 1] * 2


def test_few_workers_attend_to_all_partitions_and_many_share_them() -> None:
    assert [attended(8, workers) for workers in (0, 1, 8, 32)] == [8, 8, 8, 8]
    assert [attended(64, workers) for workers in (33, 64, 1000, 100_000)] == [63, 32, 3, 1]
    assert attended(1, 5000) == 1

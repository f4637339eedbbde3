"""The parts of the vLLM engine that need no vLLM: its options, its memory sums, its seats and its proof."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from busload_shared.errors import EngineStartFailed
from busload_shared.result import Proof
from busload_worker.engines.alarm import alarm
from busload_worker.engines.vllm_core import parts
from busload_worker.engines.vllm_memory import Need, Room, free_memory_bytes
from busload_worker.engines.vllm_preflight import Seat
from busload_worker.engines.vllm_proof import Witness, worst
from busload_worker.engines.vllm_settings import VllmSettings, check_settings, checked_options, prepare_environment

KNOWN = {"max_model_len": "int", "enforce_eager": "bool", "revision": "str | None", "hf_overrides": "dict"}


def test_an_option_from_the_environment_is_read_as_its_type() -> None:
    given = {"max_model_len": "2048", "enforce_eager": "false", "revision": "123", "hf_overrides": '{"a": 1}'}
    assert checked_options(given, KNOWN) == {
        "max_model_len": 2048,
        "enforce_eager": False,
        "revision": "123",
        "hf_overrides": {"a": 1},
    }


def test_an_unknown_option_is_refused_with_those_that_look_like_it() -> None:
    with pytest.raises(EngineStartFailed, match=r"BUSLOAD_VLLM_MAX_MODEL_LENGTH.*BUSLOAD_VLLM_MAX_MODEL_LEN\?"):
        checked_options({"max_model_length": 1}, KNOWN)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "/nowhere/at/all"}, "BUSLOAD_MODEL="),
        ({"options": {"model": "x"}}, "BUSLOAD_VLLM_MODEL cannot be set: BUSLOAD_MODEL"),
        ({"options": {"disable_log_stats": True}}, "BUSLOAD_VLLM_DISABLE_LOG_STATS cannot be set"),
        ({"options": {"data_parallel_size": "2"}}, "one worker for each replica"),
        ({"options": {"max_num_seqs": "4"}}, "BUSLOAD_VLLM_MAX_NUM_SEQS=4 is under BUSLOAD_MAX_BATCH_SIZE=8"),
    ],
)
def test_what_is_wrong_whatever_vllm_says_is_refused_before_it_is_imported(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineStartFailed, match=words):
        check_settings(VllmSettings(**({"model": "owner/name", "max_batch_size": 8} | fields)))


def test_a_hubs_model_and_more_seats_than_rows_are_let_through() -> None:
    options = {"max_num_seqs": 16, "max_model_len": 128}
    check_settings(VllmSettings(model="owner/name", max_batch_size=8, options=options))


def test_an_environment_that_says_nothing_is_silent_and_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"HF_HUB_OFFLINE": "0", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"})
    prepare_environment()
    assert os.environ["DO_NOT_TRACK"] == os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0", "a batch is one unit only in one process"
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "0", "said by the user"


def test_the_null_block_counts() -> None:
    need = Need(seats=8, max_model_len=200, block_size=128)
    assert (need.blocks, need.blocks_with_null) == (16, 17)
    assert Room(blocks=16, block_size=128).tokens(need) == 16 * 128


def test_a_small_cache_tells_what_it_holds_however_rows_are_cut_into_blocks() -> None:
    need = Need(seats=8, max_model_len=2000, block_size=16)
    held = Room(blocks=100, block_size=16).tokens(need)
    assert held == 92 * 16
    blocks_at_worst = (held + 8 * 15) // 16
    assert blocks_at_worst <= 100


def test_there_is_some_free_memory() -> None:
    assert free_memory_bytes() > 0


def a_seat(index: int, n: int, tokens: int = 1) -> Seat:
    row = cast("Any", SimpleNamespace(index=index))
    return Seat(row, str(index), None, cast("Any", SimpleNamespace(n=n, max_tokens=tokens)), 1)


@pytest.mark.parametrize(
    ("sequences", "expected"),
    [([1, 1, 1, 1], [4]), ([4], [1]), ([3, 2, 2], [1, 2]), ([1, 1, 1, 1, 1], [4, 1]), ([], [])],
)
def test_a_batch_is_cut_into_the_fewest_parts_that_have_seats(sequences: list[int], expected: list[int]) -> None:
    room = Room(blocks=1000, block_size=16)
    cut = list(parts([a_seat(index, n) for index, n in enumerate(sequences)], at_once=4, room=room))
    assert [len(part) for part in cut] == expected
    assert [seat.index for part in cut for seat in part] == list(range(len(sequences)))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 15), (1, 15), (1, 15), (1, 15)], [4]),
        ([(1, 16), (1, 16), (1, 16)], [2, 1]),  # with its prompt each takes two blocks
        ([(2, 31), (1, 15), (1, 15)], [1, 2]),
        ([(1, 1000), (1, 15)], [1, 1]),  # too heavy for all there is: alone
    ],
)
def test_a_batch_is_cut_into_parts_that_the_cache_holds(rows: list[tuple[int, int]], expected: list[int]) -> None:
    room = Room(blocks=4, block_size=16)
    seats = [a_seat(index, n, tokens) for index, (n, tokens) in enumerate(rows)]
    assert [len(part) for part in parts(seats, at_once=8, room=room)] == expected


@dataclass
class Stamp:
    scheduled_ts: float
    last_token_ts: float
    num_preemptions: int = 0


def test_a_unit_admitted_in_one_step_after_the_last_one_has_a_proof() -> None:
    witness = Witness()
    witness.board({0: [Stamp(1.0, 2.0)], 1: [Stamp(1.0, 3.0)]})
    assert witness.row(0) == Proof(spread_ms=0, preemptions=0, gap_ms=None)
    assert witness.close().holds
    witness.board({0: [Stamp(3.5, 4.0)]})
    proof = witness.close()
    assert proof.gap_ms == 500
    assert proof.holds


def test_a_late_row_a_preemption_and_an_overlap_are_each_seen_and_said() -> None:
    witness = Witness()
    witness.board({0: [Stamp(1.0, 2.0)], 1: [Stamp(1.5, 3.0), Stamp(1.0, 3.0, 2)]})
    assert witness.row(0).preemptions == 0
    proof = witness.close()
    assert (proof.spread_ms, proof.preemptions, proof.holds) == (500, 2, False)
    assert "KV" in alarm(proof)
    witness.board({0: [Stamp(2.0, 4.0)]})
    overlap = witness.close()
    assert overlap.gap_ms == -1000
    assert not overlap.holds
    assert "bug" in alarm(overlap)
    assert "BATCHED_TOKENS" in alarm(Proof(spread_ms=5, preemptions=0))


def test_the_worst_over_a_batchs_parts_is_told() -> None:
    both = [Proof(spread_ms=0, preemptions=1, gap_ms=3), Proof(spread_ms=2, preemptions=0, gap_ms=1)]
    assert worst(both) == Proof(spread_ms=2, preemptions=1, gap_ms=1)
    assert worst([]) is None


def test_a_unit_whose_rows_were_all_aborted_before_the_first_step_is_passed_over() -> None:
    witness = Witness()
    witness.board({0: [Stamp(1.0, 2.0)]})
    witness.close()
    witness.board({0: [Stamp(0.0, 0.0)]})
    assert witness.close() == Proof(spread_ms=0, preemptions=0, gap_ms=None)
    witness.board({0: [Stamp(3.0, 4.0)]})
    assert witness.close().gap_ms == 1000

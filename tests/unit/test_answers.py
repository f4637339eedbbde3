"""From what happened to a row to what its reader sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busload_shared.element import Element
from busload_shared.replies import Claim, Seat
from busload_shared.request import Request
from busload_shared.result import BatchInfo, Output, Proof, Result, TokenLogprob, Usage
from busload_worker.admission import admit, readable_id
from busload_worker.answers import Ride, delivery, succeeded
from busload_worker.engines.fake_model import row_done
from busload_worker.engines.protocol import BatchStarted, RowDone

NOW = 10_000.0


def seat(payload: bytes, *, index: int = 0, id: str = "", arrival: float = 9_000.0, lone: int = 0) -> Seat:
    return Seat(index, Element(arrival, 0, lone, "client", id, payload), cancelled=False)


def ride(*seats: Seat) -> Ride:
    return Ride(Claim("b1", NOW, NOW, 3, "full", seats, read_at=50.0), "w1", size=len(seats))


def body(**fields: object) -> bytes:
    return json.dumps({"id": "a", "prompt": "x", "max_tokens": 4} | fields).encode()


def test_a_good_row_boards_and_its_answer_tells_why_the_batch_left_and_how_long_it_waited() -> None:
    good = seat(body(metadata={"k": [1, 2**70]}))
    trip = ride(good)
    admission = admit(trip, NOW)
    trip.begin(BatchStarted(rows=1, prompt_tokens=1, tokens=5, at=50.5))
    row = row_done(admission.rows[0], ran_ms=7.0, proof=Proof(spread_ms=0, preemptions=0))

    result = succeeded(trip, *admission.seats[0], row, held_ms=1.5)

    assert (result.status, result.worker, result.attempts) == ("succeeded", "w1", 1)
    assert result.metadata == {"k": [1, 2**70]}
    assert result.batch is not None
    assert result.timing is not None
    assert (result.batch.id, result.batch.trigger, result.batch.tokens) == ("b1", "full", 5)
    timing = result.timing
    assert (timing.enqueued_ms, timing.started_ms, timing.finished_ms) == (9_000, 10_500, 10_507)
    assert (timing.waited_ms, timing.run_ms, timing.held_ms) == (1_500, 7, 1.5)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)
times = st.floats(-1, 1e7)
logprobs = st.builds(TokenLogprob, token_id=st.integers(0, 9), token=texts, logprob=st.floats(-50, 0), rank=st.none())
outputs = st.builds(
    Output,
    index=st.integers(0, 15),
    text=texts,
    finish_reason=st.sampled_from(["stop", "length"]),
    stop_reason=st.none() | texts | st.integers(),
    token_ids=st.none() | st.tuples(st.integers(0, 9)),
    logprobs=st.none() | st.tuples(st.tuples(logprobs)),
)
proofs = st.builds(Proof, spread_ms=st.floats(0, 1e3), preemptions=st.integers(0, 3), gap_ms=st.none() | times)
metadata = st.none() | st.dictionaries(texts, st.none() | texts | st.integers() | st.floats(-1e9, 1e9), max_size=3)
rows = st.builds(
    RowDone,
    index=st.just(0),
    outputs=st.lists(outputs, max_size=3).map(tuple),
    usage=st.builds(Usage, prompt_tokens=st.integers(0), completion_tokens=st.integers(0), total_tokens=st.integers(0)),
    ran_ms=times,
    proof=st.none() | proofs,
)


@given(row=rows, name=ids, worker=ids, batch=texts, metadata=metadata, held_ms=times, attempts=st.integers(0, 99))
def test_what_is_delivered_reads_back_as_what_happened_whatever_it_was(
    row: RowDone, name: str, worker: str, batch: str, metadata: dict[str, Any] | None, held_ms: float, attempts: int
) -> None:
    element = Element(9_000, attempts, 0, "client", name, b"")
    trip = Ride(Claim(batch, NOW, NOW, 3, "full", (), read_at=50.0), worker, size=7)
    trip.begin(BatchStarted(rows=7, prompt_tokens=1, tokens=5, at=50.5))
    request = Request(id=name, prompt="x", metadata=metadata)

    place = Seat(4, element, False)

    sent = delivery(place, succeeded(trip, place, request, row, held_ms=held_ms))
    told = Result.model_validate_json(sent.result)

    assert (sent.position, sent.id, sent.status, sent.reply, sent.letter) == (4, name, "succeeded", "client", b"")
    assert told.model_fields_set <= set(Result.model_fields)
    assert (told.id, told.status, told.worker, told.attempts) == (name, "succeeded", worker, attempts + 1)
    assert (told.outputs, told.usage, told.error, told.metadata) == (row.outputs, row.usage, None, metadata)
    assert told.batch == BatchInfo(id=batch, size=7, position=4, trigger="full", tokens=5)
    assert told.timing is not None
    near = {"rel": 0, "abs": 0.00051}
    wanted = {"enqueued_ms": 9_000, "claimed_ms": NOW, "started_ms": NOW + 500, "finished_ms": NOW + 500 + row.ran_ms,
              "waited_ms": NOW + 500 - 9_000, "run_ms": row.ran_ms, "held_ms": held_ms}  # fmt: skip
    assert told.timing.model_dump(exclude={"proof"}) == pytest.approx(wanted, **near)
    assert (told.timing.proof is None) == (row.proof is None)
    if told.timing.proof is not None and row.proof is not None:
        assert told.timing.proof.holds == row.proof.holds
        gaps = [told.timing.proof.gap_ms, row.proof.gap_ms]
        assert gaps == [None, None] or gaps[0] == pytest.approx(gaps[1], **near)


def test_a_row_that_died_alone_twice_is_convicted_with_its_evidence() -> None:
    trip = ride(seat(body(), lone=2))

    admission = admit(trip, NOW)

    assert admission.rows == []
    (answer,) = admission.answers
    assert Result.model_validate_json(answer.result).error.code == "poison"  # type: ignore[union-attr]
    letter = json.loads(answer.letter)
    assert (letter["id"], letter["code"], json.loads(letter["payload"])["prompt"]) == ("a", "poison", "x")


def test_one_lone_death_is_no_proof() -> None:
    assert len(admit(ride(seat(body(), lone=1)), NOW).rows) == 1


def test_a_deadline_counts_from_the_redis_clock_and_not_from_the_producers() -> None:
    late, fine = seat(body(ttl_s=0.9)), seat(body(ttl_s=1.1, created_at=0.0), index=1)

    admission = admit(ride(late, fine), NOW)

    assert [row.index for row in admission.rows] == [1]
    assert admission.answers[0].status == "expired"


def test_an_id_is_read_from_a_broken_request_only_where_it_can_be_an_address() -> None:
    assert readable_id(b'{"id": "a", "prompt": 7}') == "a"
    for payload in (b"", b"[]", b"{", b'{"id": 7}', b'{"id": ""}', b'{"id": "a b"}', b'{"id": "' + b"x" * 257 + b'"}'):
        assert readable_id(payload) == ""


def test_a_row_of_the_engine_is_never_paired_by_position() -> None:
    rows = [seat(body(id=name), index=i, id=name) for i, name in enumerate("abc")]
    admission = admit(ride(*rows), NOW)

    assert {index: request.id for index, (_, request) in admission.seats.items()} == {0: "a", 1: "b", 2: "c"}
    assert isinstance(row_done(admission.rows[2], ran_ms=1, proof=Proof(spread_ms=0, preemptions=0)), RowDone)

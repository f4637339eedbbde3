"""From what happened to a row to what its reader sees."""

from __future__ import annotations

import json

from busload_shared.element import Element
from busload_shared.replies import Claim, Seat
from busload_shared.result import Proof, Result
from busload_worker.admission import admit, readable_id
from busload_worker.answers import Ride, delivery, succeeded
from busload_worker.engines.fake_model import row_done
from busload_worker.engines.protocol import BatchStarted, RowDone

NOW = 10_000.0


def seat(payload: bytes, *, index: int = 0, id: str = "", arrival: float = 9_000.0, lone: int = 0) -> Seat:
    return Seat(index, Element(arrival, 0, lone, "client", id, payload), cancelled=False)


def ride(*seats: Seat) -> Ride:
    return Ride(Claim("b1", NOW, NOW, 3, "full", seats), "w1", size=len(seats))


def body(**fields: object) -> bytes:
    return json.dumps({"id": "a", "prompt": "x", "max_tokens": 4} | fields).encode()


def test_a_good_row_boards_and_its_answer_tells_why_the_batch_left_and_how_long_it_waited() -> None:
    good = seat(body(metadata={"k": [1, 2**70]}))
    trip = ride(good)
    admission = admit(trip, NOW)
    trip.begin(BatchStarted(rows=1, prompt_tokens=1, tokens=5), NOW + 2)
    row = row_done(admission.rows[0], ran_ms=7.0, proof=Proof(spread_ms=0, preemptions=0))

    result = succeeded(trip, *admission.seats[0], row, held_ms=1.5)

    assert (result.status, result.worker, result.attempts) == ("succeeded", "w1", 1)
    assert result.metadata == {"k": [1, 2**70]}
    assert result.batch is not None
    assert result.timing is not None
    assert (result.batch.id, result.batch.trigger, result.batch.tokens) == ("b1", "full", 5)
    timing = result.timing
    assert (timing.enqueued_ms, timing.started_ms, timing.finished_ms) == (9_000, 10_002, 10_009)
    assert (timing.waited_ms, timing.run_ms, timing.held_ms) == (1_002, 7, 1.5)


def test_what_is_delivered_reads_back_as_the_same_result() -> None:
    trip = ride(seat(body()))
    admission = admit(trip, NOW)
    result = succeeded(
        trip, *admission.seats[0], row_done(admission.rows[0], ran_ms=1.0, proof=Proof(spread_ms=0, preemptions=0))
    )

    sent = delivery(trip.claim.seats[0], result)

    assert Result.model_validate_json(sent.result) == result
    assert (sent.id, sent.status, sent.reply, sent.letter) == ("a", "succeeded", "client", b"")


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

"""The pure parts of the operations page."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr
from tests.cli.test_operating import a_batch, a_worker, an_info

from busload.gateway.keys import KeyRing
from busload.gateway.settings import GatewaySettings
from busload.operating.watching import Watch
from busload.ops_page import figures
from busload.ops_page.door import Door
from busload.ops_page.histograms import histograms
from busload.ops_page.operators import Operator, Operators
from busload.ops_page.overview import LONG_WAIT_S, concerns_of, tiles
from busload.ops_page.rows import WORKERS_SHOWN, bus_rows, worker_rows
from busload.ops_page.sessions import Sessions
from busload.ops_page.sight import Seen
from busload.ops_page.tries import ADDRESSES_KEPT, AT_ONCE, Tries
from busload_shared.past_batch import PAST_BATCHES_KEPT, PastBatch, PastBatches
from busload_shared.replies import QueueInfo, Running
from busload_shared.wait_info import WaitInfo

ANN = Operator("ann", "a" * 64)
BOB = Operator("bob", "b" * 64)


def past(batch: str, **named: Any) -> PastBatch:
    fields = {"size": 2, "trigger": "timeout", "claimed_ms": 1000, "ended_ms": 1300, "waited_ms": 20, "run_ms": 290}
    return PastBatch(**{"batch": batch, "held_ms": 0} | fields | named)


def seen(info: QueueInfo, **named: Any) -> Seen:
    return Seen("q", Watch().look(info), **{"trouble": None, "is_narrow": False, "age_s": 0.0} | named)


# sessions


def test_a_session_is_its_holders_until_it_is_over() -> None:
    sessions = Sessions(b"secret", lasts_s=60)
    token = sessions.open(ANN, 1000.4)
    assert sessions.holder(token, [BOB, ANN], 1059) == ANN
    assert sessions.holder(token, [BOB, ANN], 1060) is None
    assert sessions.holder(token, [BOB], 1001) is None, "the operator is gone"
    assert sessions.holder(token, [Operator("ann", "c" * 64)], 1001) is None, "she has another key now"
    assert Sessions(b"other", lasts_s=60).holder(token, [ANN], 1001) is None
    assert sessions.open(ANN, 1000) != sessions.open(ANN, 1000)


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token.replace("ann", "bob"),
        lambda token: token.replace("1060", "9999"),
        lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
        lambda token: token.rpartition(".")[0],
        lambda token: "",
        lambda token: "....",
        lambda token: "ann.\u0663\u0663\u0663\u0663\u0663.x.\u0663",
        lambda token: "ann." + "9" * 5000 + ".x.y",
        lambda token: "\udcff.1.2.3",
    ],
)
def test_a_token_that_was_made_up_opens_nothing(change: Any) -> None:
    sessions = Sessions(b"secret", lasts_s=60)
    assert sessions.holder(change(sessions.open(ANN, 1000)), [ANN, BOB], 1001) is None


def test_a_form_belongs_to_one_session() -> None:
    sessions = Sessions(b"secret", lasts_s=60)
    mine, other = sessions.open(ANN, 1000), sessions.open(ANN, 1000)
    assert sessions.is_own_form(mine, sessions.form_token(mine))
    assert not sessions.is_own_form(other, sessions.form_token(mine))
    assert not sessions.is_own_form(mine, "")
    assert sessions.form_token(mine) not in mine


def test_operators_are_those_of_the_settings_and_of_the_file() -> None:
    door = Door(GatewaySettings(ops_key=SecretStr("k" * 16)), KeyRing(None))
    assert [one.name for one in door.operators.all()] == ["operator"]
    assert door.operators.by_secret("k" * 16) is not None
    assert door.operators.by_secret("") is None
    assert Operators(KeyRing(None), "").all() == ()
    assert Operators(KeyRing(None), "").by_secret("") is None


# wrong keys


def test_wrong_keys_are_counted_by_address_and_forgiven_in_time() -> None:
    now = 0.0
    tries = Tries(clock=lambda: now)
    for _ in range(AT_ONCE):
        assert tries.wait_s("a") == 0
        tries.failed("a")
    assert tries.wait_s("a") == pytest.approx(10)
    assert tries.wait_s("a") == pytest.approx(10), "asking costs nothing"
    assert tries.wait_s("b") == 0
    now = 10.0
    assert tries.wait_s("a") == 0
    tries.failed("a")
    assert tries.wait_s("a") > 0


def test_addresses_do_not_pile_up() -> None:
    tries = Tries(clock=lambda: 0.0)
    for number in range(3 * ADDRESSES_KEPT):
        tries.failed(str(number))
    assert len(tries._buckets) == ADDRESSES_KEPT


# figures


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "\u2013"), (0, "0 ms"), (0.25, "0.2 ms"), (9.94, "9.9 ms"), (340.4, "340 ms"), (2_345, "2.3 s"),
        (119_000, "119.0 s"), (720_000, "12 min"), (12_600_000, "3.5 h"), (345_600_000, "4.0 days"),
    ],
)  # fmt: skip
def test_spans_read_well(ms: float | None, text: str) -> None:
    assert figures.span(ms) == text


def test_other_figures_read_well() -> None:
    assert (figures.count(12345), figures.rate(None), figures.rate(3.44), figures.rate(1234.5)) == (
        "12,345", "\u2013", "3.4", "1,234",
    )  # fmt: skip
    assert (figures.share(0.876), figures.share(None)) == ("88 %", "\u2013")
    assert (figures.counted(1, "bus", "buses"), figures.counted(2, "bus", "buses")) == ("1 bus", "2 buses")
    assert (figures.ago(-5), figures.ago(None)) == ("0 ms ago", "\u2013")
    assert figures.plain("a\n b\u202ec\x00" + "x" * 300, 8) == "a b\ufffdc\ufffdxx\u2026"


# what is watched


def test_workers_tell_of_buses_that_were_too_short_to_be_seen_out() -> None:
    watch = Watch()
    worker = a_worker(rows=2, batches=1)
    [bus] = watch.look(an_info(100, worker=worker), {"w": [past("short")]}).buses
    assert (bus.batch.batch, bus.is_back, bus.out_ms, bus.batch.waited_ms) == ("short", True, 300, 20)
    watch.see(Running(1400, (a_batch("short", claimed_ms=1000),)))
    [bus] = watch.look(an_info(101, worker=a_worker(rows=2, batches=1))).buses
    assert (bus.is_back, bus.past) == (True, past("short")), "its last answers are under way, its run is over"


def test_what_its_worker_told_of_a_bus_is_kept_when_he_tells_of_others() -> None:
    watch = Watch(kept=3)
    for number in range(5):
        told = {"w": [past(f"b{number}", claimed_ms=1000 + number, held_ms=7.0)]}
        frame = watch.look(an_info(number, worker=a_worker(rows=1, batches=1)), told)
    assert [bus.batch.batch for bus in frame.buses] == ["b4", "b3", "b2"]
    assert {bus.past.held_ms for bus in frame.buses if bus.past} == {7.0}


def test_what_a_newer_worker_tells_besides_is_ignored() -> None:
    newer = past("b").model_dump_json().replace("{", '{"more":1,', 1)
    assert PastBatches.model_validate_json(f'{{"more":1,"batches":[{newer}]}}').batches == (past("b"),)
    assert PAST_BATCHES_KEPT == 16, "docs/cli.md and docs/operations-page.md tell it"


# histograms


def test_histograms_count_fill_wait_run_and_held() -> None:
    watch = Watch()
    told = tuple(
        past(f"b{n}", size=size, waited_ms=wait, run_ms=300, held_ms=held)
        for n, (size, wait, held) in enumerate([(1, 3, 0), (2, 4, 0), (4, 30, 12), (4, 90_000, 0.5)])
    )
    frame = watch.look(an_info(1, worker=a_worker(rows=1, batches=1)), {"w": told})
    fill, wait, run, held = histograms(frame.buses, {"w": 4})
    assert [(bar.label, bar.count) for bar in fill.bars] == [
        ("to 25 %", 1), ("to 50 %", 1), ("to 75 %", 0), ("under 100 %", 0), ("full", 2),
    ]  # fmt: skip
    assert fill.summary == "mean 69 %"
    assert [(bar.label, bar.count) for bar in wait.bars if bar.count] == [
        ("to 5 ms", 2), ("to 50 ms", 1), ("over 60 s", 1),
    ]  # fmt: skip
    assert [bar.percent for bar in wait.bars if bar.count] == [100, 50, 50]
    assert [(bar.label, bar.count) for bar in run.bars] == [("to 500 ms", 4)]
    assert held.summary == "median 0.5 ms, longest 12 ms"


def test_histograms_of_nothing_and_of_nothing_held() -> None:
    for one in histograms((), {}):
        assert (one.bars, one.summary) == ((), "no bus is back yet")
    frame = Watch().look(an_info(1, worker=a_worker(rows=2, batches=1)), {"w": [past("b")]})
    held = histograms(frame.buses, {})[3]
    assert held.summary == "0 in all 1 bus: each answer leaves when its row ends"


# what wants attention


def test_an_idle_and_healthy_queue_has_no_concern() -> None:
    assert concerns_of(seen(an_info(1, worker=a_worker(rows=0, batches=0)))) == ()


@pytest.mark.parametrize(
    ("change", "tone", "words"),
    [
        ({"workers": ()}, "warn", "No worker is up. Requests will wait"),
        ({"workers": (), "waiting": 1}, "bad", "No worker is up. 1 request waits"),
        ({"workers": (), "waiting": 2, "retry": 1}, "bad", "3 requests wait until"),
        ({"retry": 2}, "warn", "2 requests will run again"),
    ],
)
def test_a_concern_says_what_is_wrong(change: dict[str, Any], tone: str, words: str) -> None:
    info = an_info(1, worker=a_worker(rows=0, batches=0)).model_copy(update=change)
    first = concerns_of(seen(info))[0]
    assert (first.tone, words in first.text) == (tone, True), first


def test_a_broken_worker_and_a_long_wait_are_concerns() -> None:
    broken = a_worker(rows=0, batches=0).model_copy(update={"state": "broken"})
    told = [one.text for one in concerns_of(seen(an_info(1, worker=broken)))]
    assert "is broken" in told[0]
    assert "No worker is ready, they are: broken" in told[1]
    slow = a_worker(rows=0, batches=0).model_copy(update={"rows_per_s": 1.0, "state": "ready"})
    info = an_info(1, worker=slow).model_copy(update={"waiting": int(LONG_WAIT_S) + 1})
    assert "busload plan" in concerns_of(seen(info))[0].text


def test_trouble_with_redis_comes_first_and_hides_guesses() -> None:
    info = an_info(1, worker=a_worker(rows=0, batches=0)).model_copy(update={"workers": ()})
    [first, second] = concerns_of(seen(info, trouble="Redis is away", is_narrow=True, age_s=3.0))
    assert first.text.startswith("Redis is away. What stands here is 3.0 s old.")
    assert "BUSLOAD_GATEWAY_OPS_REDIS_URL" in second.text


def test_tiles_tell_depths_and_rates() -> None:
    watch = Watch()
    watch.look(an_info(100, worker=a_worker(rows=0, batches=0), succeeded=0))
    frame = watch.look(an_info(110, worker=a_worker(rows=8, batches=4), succeeded=20, failed=1))
    told = {tile.label: (tile.value, tile.note, tile.tone) for tile in tiles(frame)}
    assert told["Answers/s"] == ("2.1", "0.1 failed", "warn")
    assert told["Fill"][1] == "2.0 a bus, last 10 s"


# rows


def test_a_worker_says_why_its_bus_waits() -> None:
    fixed = a_worker(rows=0, batches=0).model_copy(update={"max_wait_ms": 20.0, "max_batch_size": 8})
    learned = fixed.model_copy(update={"wait": WaitInfo(reason="leaves: nobody is likely to come")})
    new = fixed.model_copy(update={"wait": WaitInfo()})
    said = [worker_rows(Watch().look(an_info(1, worker=one)))[0].leaves_when for one in (fixed, learned, new)]
    assert said == ["full (8) or after 20 ms", "leaves: nobody is likely to come", "learns when to leave"]


def test_of_very_many_workers_those_that_are_not_ready_are_shown() -> None:
    many = tuple(a_worker(rows=0, batches=0).model_copy(update={"name": f"w{n:03}"}) for n in range(WORKERS_SHOWN + 5))
    lame = many[-1].model_copy(update={"state": "restarting"})
    info = an_info(1).model_copy(update={"workers": (*many[:-1], lame)})
    rows = worker_rows(Watch().look(info))
    assert (rows[0].name, rows[0].tone, rows[1].name, len(rows)) == (lame.name, "warn", "w000", WORKERS_SHOWN)


def test_a_bus_that_came_back_with_rows_unanswered_says_so() -> None:
    told = {"w": [past("died-b00", unanswered=2)]}
    [row] = bus_rows(Watch().look(an_info(1, worker=a_worker(rows=2, batches=1)), told))
    assert (row.note, row.is_out, row.gauge.answered) == ("2 went back", False, 0)
    assert row.gauge.running > 0

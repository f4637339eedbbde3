"""The peers benchmark's pure parts: what a client saw to figures, answers on the wire, versions, phrases."""

from __future__ import annotations

import itertools

import pytest
from ops.bench.peers import figures
from ops.bench.peers.arrivals import arrivals
from ops.bench.peers.install import VERSIONS, parse_versions
from ops.bench.peers.report import BESIDE, report
from ops.bench.peers.scenarios import chosen, scenarios
from ops.bench.peers.serving import ROWS
from ops.bench.peers.wires import PATHS, Connection, SocketWire, split_http, split_line

SEEN = {"done": 200, "failed": 1, "wall_s": 2.0, "server_cpu_s": 0.4, "client_cpu_s": 0.1, "batches": 10, "items": 200}


def test_a_run_becomes_rates_shares_and_costs() -> None:
    seen = SEEN | {"latencies_ms": [11.0, 12.0, 13.0, 30.0]}
    assert figures.figures(seen, window_ms=10, limit=200.0) == {
        "failed": 1,
        "per_s": 100.0,
        "share_of_limit": 0.5,
        "p50_ms": 13.0,
        "p99_ms": 30.0,
        "p50_over_window_ms": 3.0,
        "mean_batch": 20.0,
        "server_cpu_s_per_1000": pytest.approx(2.0),
        "client_cpu_s_per_1000": pytest.approx(0.5),
    }


def test_a_run_without_an_answer_has_only_its_failures() -> None:
    assert figures.figures(SEEN | {"done": 0}, window_ms=10, limit=None) == {"failed": 1}


def test_the_limit_is_a_full_batch_after_the_other() -> None:
    assert figures.limit_per_s(batch=32, base_ms=20, item_ms=1) == pytest.approx(615.38, abs=0.01)


def test_repeats_become_medians_with_their_range_and_ratios_of_the_same_repeat() -> None:
    ours, theirs = {0: {"per_s": 4.0}, 1: {"per_s": 6.0}}, {0: {"per_s": 2.0}, 1: {"per_s": 2.0, "p50_ms": 1.0}}
    assert figures.summary(list(ours.values())) == {"per_s": {"median": 5.0, "min": 4.0, "max": 6.0}}
    assert "p50_ms" not in figures.summary(list(theirs.values()))
    assert figures.ratios(ours, theirs, "per_s") == {0: 2.0, 1: 3.0}
    assert figures.ratios(ours, {1: {"per_s": 2.0}}, "per_s") == {1: 3.0}
    assert figures.ratios(ours, {0: {"failed": 3.0}}, "per_s") == {}


def test_every_peer_gets_the_arrivals_of_the_seed_and_another_seed_gives_others() -> None:
    open_loop = {"rate": 100.0, "until_s": 20.0}
    drawn = list(arrivals(seed=1, spread=1, **open_loop))
    assert drawn == list(arrivals(seed=1, spread=1, **open_loop)) == sorted(drawn)
    assert drawn != list(arrivals(seed=2, spread=1, **open_loop))
    assert drawn[-2] < 20 <= drawn[-1]
    assert len(drawn) == pytest.approx(2000, rel=0.1)


def test_a_small_spread_keeps_the_gaps_close_to_their_mean() -> None:
    due = list(arrivals(seed=1, rate=5.0, spread=0.2, until_s=20.0))
    assert all(0.16 <= after - before <= 0.24 for before, after in itertools.pairwise(due))


def test_scenarios_are_chosen_by_name_or_by_how_they_begin() -> None:
    plan = scenarios(1.0, 1)
    assert chosen(plan, []) == plan
    assert [one.name for one in chosen(plan, ["closed 64, 0 ms"])] == ["closed 64, 0 ms"]
    assert [one.name for one in chosen(plan, ["nine", "closed 256"])] == [
        "closed 256, 0 ms",
        "closed 256, 20+n ms",
        "nine tenths, 20+n ms",
    ]
    assert chosen(plan, ["none"]) == []


def test_a_peer_stands_beside_the_busload_that_is_driven_in_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {
        "busload": {0: 8.0, 1: 6.0},
        "busload-raw": {0: 9.0},
        "mosec": {0: 10.0, 1: 5.0},
        "mosec-aiohttp": {1: 4.0},
    }
    found = {peer: {repeat: {"per_s": rate} for repeat, rate in rows.items()} for peer, rows in rates.items()}
    summaries = {"closed": {peer: figures.summary(list(rows.values())) for peer, rows in found.items()}}
    told = report(summaries, {"closed": found})["closed"]
    assert told["mosec"] == {"beside": "busload-raw", "per_s": {0: 0.9}}
    assert told["mosec-aiohttp"] == {"beside": "busload", "per_s": {1: 1.5}}
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[-4:] == [
        "busload library 7 (6-8) 1.00 1.00",
        "mosec-aiohttp library 4 - 1.50",
        "busload-raw bare wire 9 1.00 -",
        "mosec bare wire 7.5 (5-10) 0.90 -",
    ]


def test_every_http_peer_has_a_row_for_its_bare_wire_and_one_for_aiohttp() -> None:
    assert {name for name in ROWS if name.endswith("-aiohttp")} == {f"{peer}-aiohttp" for peer in PATHS}
    assert all(ROWS[f"{peer}-aiohttp"].client != ROWS[peer].client for peer in PATHS)
    assert {row.client for row in ROWS.values()} == set(BESIDE)
    assert all(ROWS[ours].client == kind for kind, ours in BESIDE.items() if kind != "in process")


def test_an_http_answer_is_whole_only_with_all_of_its_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    assert all(split_http(answer[:cut]) is None for cut in range(len(answer)))
    assert split_http(answer + b"HTTP") == (True, b"hello", b"HTTP")
    refused = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy"
    assert split_http(refused) == (False, b"503 busy", b"")


def test_a_line_says_in_its_first_byte_how_it_went() -> None:
    assert split_line(b"+text") is None
    assert split_line(b"+text\n-") == (True, b"text", b"-")
    assert split_line(b"-no\n") == (False, b"no", b"")


@pytest.mark.parametrize("style", ["mosec", "litserve", "bentoml"])
def test_a_request_says_the_length_of_its_body(style: str) -> None:
    head, _, body = SocketWire(style, "127.0.0.1:80").message("some prompt").partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"some prompt" in body


def test_a_kept_connection_that_the_server_closed_is_not_used_again() -> None:
    wire, kept, closed = SocketWire("mosec", "127.0.0.1:80"), Connection(split_http), Connection(split_http)
    closed.connection_lost(None)
    wire._idle += [kept, closed]
    assert wire._kept() is kept
    assert wire._kept() is None


def test_every_client_runs_on_uvloop_and_those_of_http_have_aiohttp() -> None:
    versions = parse_versions(VERSIONS.read_text(encoding="utf-8"))
    names = {peer: {requirement.partition("==")[0] for requirement in wanted} for peer, wanted in versions.items()}
    assert all("uvloop" in installs for installs in names.values())
    assert all("aiohttp" in names[peer] for peer in PATHS)


def test_every_peer_has_its_version_pinned() -> None:
    versions = parse_versions(VERSIONS.read_text(encoding="utf-8"))
    assert set(versions) == {"mosec", "ray", "bentoml", "litserve", "celery-batches", "batched"}
    assert all("==" in requirement for wanted in versions.values() for requirement in wanted)
    assert parse_versions("# none\n\na: b==1 c[d]==2 # why\n") == {"a": ["b==1", "c[d]==2"]}


def test_neighbours_are_counted_apart_from_the_bad_row() -> None:
    bad = ("CallFailed: one item is bad", 0.1)
    told = figures.neighbours([bad, ("ok", 0.1), ("ok", 0.1)])
    assert told == "2 of 2 neighbours answered; bad row: error (one item is bad)"
    assert "0 of 1 neighbours answered, others error" in figures.neighbours([bad, bad])


@pytest.mark.parametrize(
    ("answered_s", "running", "told"),
    [
        (3.0, True, "stops, noticed"),
        (5.5, True, "is done for nobody"),
        (5.2, False, "stops, noticed"),
        (8.2, False, "is done for nobody"),
    ],
)
def test_the_next_answer_tells_whether_work_for_nobody_was_done(answered_s: float, running: bool, told: str) -> None:
    left_s = 0.5 if running else 0.8
    assert figures.leaving(answered_s, run_s=3.0, left_s=left_s, running=running) == told


def test_what_callers_of_a_killed_worker_got_is_grouped() -> None:
    told = figures.killed([("ok", 4.0), ("ok", 5.0), ("nothing within 45 s", 45.0)])
    assert told == "2 of 3: answer after 5.0 s; 1 of 3: nothing within 45 s after 45.0 s"

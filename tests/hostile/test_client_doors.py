"""The clients' doors: hostile ids, requests and names are refused by their type before anything goes to Redis."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from busload import AsyncClient, Client
from busload.demo.questions import read_requests
from busload_shared.errors import BusloadError, BusloadUnavailable, RequestInvalid, SettingsInvalid
from busload_shared.keys import Keys

NOWHERE = "redis://127.0.0.1:1/0"
"""Nobody listens there: what reaches for Redis raises BusloadUnavailable, which none of these tests allows."""

IDS: list[Any] = [
    "", " ", "a b", "\x00", "a\r\nFLUSHALL\r\n", "\ud800", "x" * 257, "x" * 1_000_000, "\u2028", "\xa0",
    "\x7f", "a\x85b", None, 5, b"bytes", ["a"], {"id": "a"}, math.nan, True,
]  # fmt: skip
QUEUES = [
    "", "a{b}", "{", "}", "a b", "a\nb", "\x00", "x" * 129, "x" * 1_000_000, "\ud800", "\u2028", "\u202e",
]  # fmt: skip


def _names(values: list[Any]) -> list[str]:
    return [f"{type(value).__name__}-{number}" for number, value in enumerate(values)]


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    async with AsyncClient(NOWHERE, patience_s=0) as client:
        yield client


async def test_these_tests_would_notice_a_door_that_lets_through(client: AsyncClient) -> None:
    with pytest.raises(BusloadUnavailable):
        await client.status("fine")


@pytest.mark.parametrize("name", IDS, ids=_names(IDS))
async def test_a_hostile_id_is_refused_at_every_method(client: AsyncClient, name: Any) -> None:
    async def first() -> None:
        async for _ in client.as_completed([name], timeout_s=0.1):
            pass

    for call in (
        lambda: client.result(name, timeout_s=0.1),
        lambda: client.results([name]),
        lambda: client.results(["fine", name]),
        lambda: client.status(name),
        lambda: client.statuses(["fine", name]),
        lambda: client.cancel(name),
        first,
    ):
        with pytest.raises(RequestInvalid, match="id") as refused:
            await call()
        assert len(str(refused.value)) < 300
    if name is not None:  # then it is given one
        with pytest.raises(RequestInvalid, match="id"):
            await client.submit(id=name, prompt="p")
        with pytest.raises(RequestInvalid, match="id"):
            await client.generate({"id": name, "prompt": "p"}, timeout_s=0.1)


def test_the_client_for_synchronous_code_refuses_them_as_well() -> None:
    with Client(NOWHERE, patience_s=0) as client:
        for name in IDS:
            for call in (client.result, client.status, client.cancel):
                with pytest.raises(RequestInvalid, match="id"):
                    call(name)
            with pytest.raises(RequestInvalid, match="id"):
                client.results([name])
            with pytest.raises(RequestInvalid, match="id"):
                list(client.as_completed([name]))


@pytest.mark.parametrize("name", QUEUES, ids=_names(QUEUES))
def test_a_hostile_queue_name_is_refused_when_the_client_is_made(name: Any) -> None:
    for make in (AsyncClient, Client):
        with pytest.raises(SettingsInvalid, match="queue name") as refused:
            make(NOWHERE, queue=name)
        assert len(str(refused.value)) < 300
    with pytest.raises(SettingsInvalid, match="queue name"):
        Keys(name)


@pytest.mark.parametrize(
    "url", ["", "x", "http://127.0.0.1", "redis://h:port", "redis://h:99999999999", "redis://[::1", "redis://:pass-word@h:x",
            "\ud800", "unix"]
)  # fmt: skip
def test_a_hostile_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BusloadError) as refused:
        AsyncClient(url)
    assert isinstance(refused.value, SettingsInvalid)
    assert "pass-word" not in str(refused.value)


REQUESTS: list[Any] = [
    5, "text", [], b"{}", {5: 6}, {"prompt": "p", 5: 6}, {"prompt": object()},
    {"prompt": "p", "metadata": {"a": object()}},
    {"prompt": "p", "metadata": {"a": {1, 2}}}, {"prompt": "p", "metadata": {"a": math.nan}}, {"prompt": "\ud800"},
    {"prompt": "x" * 2_000_000}, {"prompt": "p", "stop": ["x"] * 100_000}, {"prompt": "p", "n": 1000},
    {"prompt": "p", "max_tokens": 10**400}, {"prompt": "p", "logprobs": 10**6},
    {"prompt": "p", "metadata": {"a": [1] * 30_000}},
    {"messages": [5]}, {"messages": "hello"}, {"prompt": "p", "json_schema": {"$ref": "https://127.0.0.1/x"}}, {},
]  # fmt: skip


def _deep() -> Any:
    nested: Any = 1
    for _ in range(5000):
        nested = {"a": nested}
    return nested


def _endless() -> Any:
    ring: dict[str, Any] = {}
    ring["a"] = ring
    return ring


@pytest.mark.parametrize("request_", REQUESTS, ids=_names(REQUESTS))
async def test_a_hostile_request_is_refused_before_it_is_sent(client: AsyncClient, request_: Any) -> None:
    with pytest.raises(RequestInvalid) as refused:
        await client.submit(request_)
    assert len(str(refused.value)) < 700
    with pytest.raises(RequestInvalid, match="request 0"):
        await client.submit_many([request_, request_])


@pytest.mark.parametrize("make", [_deep, _endless])
@pytest.mark.parametrize("field", ["metadata", "json_schema", "prompt", "unknown"])
async def test_a_request_without_a_bottom_is_refused(client: AsyncClient, make: Any, field: str) -> None:
    with pytest.raises(RequestInvalid):
        await client.submit({"prompt": "p", field: make()})


@pytest.mark.parametrize(
    "line",
    [
        "{" * 5000,
        '{"a":' * 5000,
        '{"prompt": "\\ud800"}',
        '{"prompt":"p","n":1' + "0" * 5000 + "}",
        '{"prompt":NaN}',
        "{}",
    ],
    ids=range(6),
)
def test_a_hostile_line_in_a_file_of_prompts_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prompts"
    file.write_text(f"Hello\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsInvalid, match="line 2"):
        read_requests(file)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\x00" * 10, b"\n" * 100_000], ids=range(4))
def test_a_file_of_prompts_that_is_none_is_an_error_of_ours_or_prompts(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompts"
    file.write_bytes(content)
    try:
        requests, refused = read_requests(file), ""
    except SettingsInvalid as error:
        requests, refused = [], str(error)
    assert bool(requests) != ("prompts" in refused)

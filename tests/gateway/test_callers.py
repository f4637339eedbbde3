"""Keys, limits and addresses: who may call, and how often."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai as errors
import pytest
from openai import OpenAI
from tests.gateway.gateway_process import GatewayProcess
from tests.waiting import wait_until

from busload.gateway.bucket import Bucket
from busload.gateway.keys import KeyRing, new_key, read_keys
from busload.gateway.refused import Refused
from busload.gateway.serving import check_address
from busload.gateway.settings import GatewaySettings, read_settings
from busload_shared.connection import open_redis
from busload_shared.errors import SettingsInvalid
from busload_shared.queue import Queue


def write_key(path: Path, secret: str, **named: Any) -> None:
    fields = {"name": "shop", "sha256": hashlib.sha256(secret.encode()).hexdigest()} | named
    lines = [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in fields.items()]
    with path.open("a", encoding="utf-8") as file:
        file.write("[[keys]]\n" + "\n".join(lines) + "\n")


def chat(gateway: GatewayProcess, secret: str | None, **named: Any) -> httpx.Response:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    body = {"messages": [{"role": "user", "content": "a secret prompt"}], "max_tokens": 4} | named.pop("body", {})
    return httpx.post(
        f"{gateway.url}/v1/chat/completions", json=body, headers=headers | named.pop("headers", {}), timeout=30
    )


async def test_a_key_has_its_queue_its_priority_and_its_limits(
    keys_file: Path,
    any_redis_url: str,
    start_gateway: Callable[..., GatewayProcess],
    waiting_in: Callable[[Queue], Any],
) -> None:
    write_key(keys_file, "s1", queue="busload:shop", priority=3, max_tokens=8, max_body_bytes=300)
    write_key(keys_file, "s2", name="bank", requests_per_s=0.01)
    gateway = start_gateway(keys_file=keys_file, request_timeout_s=0.3)
    refused = [chat(gateway, None), chat(gateway, "s3"), chat(gateway, "s1", body={"max_tokens": 9})]
    assert [one.status_code for one in refused] == [401, 401, 400]
    assert refused[0].headers["www-authenticate"] == "Bearer"
    assert refused[2].json()["error"]["param"] == "max_tokens"
    assert chat(gateway, "s1", body={"priority": 4}).json()["error"]["param"] == "priority"
    assert chat(gateway, "s1", body={"user": "x" * 300}).status_code == 413
    assert [chat(gateway, "s2").status_code for _ in range(2)] == [504, 429]
    assert int(chat(gateway, "s2").headers["retry-after"]) > 60
    assert chat(gateway, "s1", headers={"Idempotency-Key": "42"}).status_code == 504
    redis = open_redis(any_redis_url)
    queue = Queue(redis, "busload:shop")
    assert await wait_until(lambda: queue.status(["shop.42"])) is not None
    assert (await queue.status(["shop.42"]))[0].state == "waiting"
    assert await redis.zcard(queue.keys.ranked) == 1, "it has the key's priority"
    await redis.aclose()
    wanted = {"key": "shop", "status": 504, "code": "timeout", "request_id": "shop.42"}

    async def told() -> bool:
        return any(wanted.items() <= line.items() for line in gateway.lines("call"))

    await wait_until(told, what="the log tells of the last call")
    assert "s1" not in gateway.log()
    assert "secret prompt" not in gateway.log()


async def test_keys_are_read_again_when_the_file_changes(
    keys_file: Path, start_gateway: Callable[..., GatewayProcess]
) -> None:
    write_key(keys_file, "s1")
    gateway = start_gateway(keys_file=keys_file)
    with OpenAI(base_url=f"{gateway.url}/v1", api_key="s2", max_retries=0) as client:
        with pytest.raises(errors.AuthenticationError):
            client.models.list()
        write_key(keys_file, "s2", name="bank")

        async def known() -> bool:
            try:
                return client.models.list().data == []
            except errors.AuthenticationError:
                return False

        await wait_until(known, what="the new key is known")


def test_a_broken_file_leaves_the_old_keys(keys_file: Path) -> None:
    secret, key = new_key("shop")
    write_key(keys_file, secret)
    ring = KeyRing(keys_file)
    keys_file.write_text("[[keys]]\nname = 5\n")
    assert not ring.reload()
    assert ring.caller(f"Bearer {secret}").sha256 == key.sha256
    with pytest.raises(SettingsInvalid, match=r"keys\.0\.name"):
        read_keys(keys_file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("keys = 5", "keys: "),
        ("[[keys]", "not TOML"),
        (f'[[keys]]\nname = "anonymous"\nsha256 = "{"0" * 64}"', "may be called"),
        (f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n' * 2, "twice"),
        (f'[[keys]]\nname = "a"\nsha256 = "{"0" * 64}"\nqueue = "{{a}}"', "queue"),
    ],
)
def test_a_keys_file_says_what_is_wrong(keys_file: Path, text: str, told: str) -> None:
    keys_file.write_text(text)
    with pytest.raises(SettingsInvalid, match=told):
        read_keys(keys_file)


def test_without_keys_only_loopback_is_listened_on() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_address(GatewaySettings(host=host))
    check_address(GatewaySettings(host="0.0.0.0", keys_file="keys.toml"))
    check_address(GatewaySettings(host="0.0.0.0", allow_anonymous=True))
    with pytest.raises(SettingsInvalid, match="anybody could call"):
        check_address(GatewaySettings(host="0.0.0.0"))


def test_a_bucket_gives_its_rate_and_its_burst() -> None:
    now = 0.0
    bucket = Bucket(2.0, 3.0, clock=lambda: now)
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 0.5]
    now = 0.5
    assert (bucket.take(), bucket.take()) == (0, 0.5)
    now = 100.0
    assert [bucket.take() for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_bucket_gives_many_at_once_or_none() -> None:
    now = 0.0
    bucket = Bucket(2.0, 4.0, clock=lambda: now)
    assert (bucket.take(), bucket.take(4, taken=1)) == (0, 0), "what was taken for the same is part of it"
    assert (bucket.take(), bucket.take(3)) == (0.5, 1.5)
    now = 1.0
    assert (bucket.take(), bucket.take(3, taken=1)) == (0, 0.5)
    now = 1.5
    assert (bucket.take(), bucket.take(3, taken=1)) == (0, 0), "one who was refused had his token back"


def test_a_ring_counts_each_key_by_itself(keys_file: Path) -> None:
    write_key(keys_file, "s1", requests_per_s=1, burst=2)
    write_key(keys_file, "s2", name="bank")
    ring = KeyRing(keys_file)
    shop, bank = ring.caller("Bearer s1"), ring.caller("bearer s2")
    ring.count(shop)
    ring.count(shop)
    with pytest.raises(Refused) as told:
        ring.count(shop)
    assert (told.value.refusal.status, told.value.refusal.retry_after_s) == (429, 1)
    for _ in range(100):
        ring.count(bank)


def test_settings_come_from_the_environment_and_name_what_is_wrong() -> None:
    read = read_settings({"BUSLOAD_REDIS_URL": "redis://a", "BUSLOAD_GATEWAY_MODEL_NAMES": "a, b", "OTHER": "1"})
    assert read.model_names == ("a", "b")
    assert read.redis_url.get_secret_value() == "redis://a"
    with pytest.raises(SettingsInvalid, match=r"BUSLOAD_GATEWAY_PORT: .*less than or equal"):
        read_settings({"BUSLOAD_GATEWAY_PORT": "70000"})
    with pytest.raises(SettingsInvalid, match="BUSLOAD_GATEWAY_PROT is no setting"):
        read_settings({"BUSLOAD_GATEWAY_PROT": "1"})

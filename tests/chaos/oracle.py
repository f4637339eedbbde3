"""Says at the end whether all promises were kept."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import redis
from tests.chaos.asking import fingerprint, right_text
from tests.chaos.lab import Lab
from tests.chaos.ledger import Asked

from busload_shared.keys import Keys

CHUNK = 500
EMPTY_S = 30.0


@dataclass(slots=True)
class Verdict:
    """The ids that were wronged, each kind of wrong apart, and all complaints in words."""

    lost: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)
    convicted: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return not (self.lost or self.wrong or self.doubled or self.convicted or self.complaints)


class Watcher:
    """Remembers each result as it was when its producer heard of it; it may never be another one."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.seen: dict[str, int] = {}
        self.real = lab.options.engine != "fake"

    async def run(self) -> None:
        """Look at new results every second, until cancelled."""
        while True:
            await asyncio.sleep(1.0)
            ledger = self._lab.ledger
            new, ledger.fresh = ledger.fresh, []
            try:
                bodies = await results(self._lab, new)
            except (redis.RedisError, OSError):
                ledger.fresh += new
                continue
            self.seen.update({name: crc32(body) for name, body in bodies.items() if body is not None})


async def results(lab: Lab, ids: list[str]) -> dict[str, bytes | None]:
    """What stands under the result keys."""
    found: dict[str, bytes | None] = {}
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        found |= zip(chunk, await lab.direct.mget([lab.home(name).result(name) for name in chunk]), strict=True)
    return found


async def judge(lab: Lab, watcher: Watcher) -> Verdict:
    """Look at everything. Call it when all producers have ended and all workers are well."""
    verdict = Verdict(complaints=list(lab.ledger.odd))
    bodies = await results(lab, list(lab.ledger.asked))
    to_monotonic = time.monotonic() - time.time()
    for asked in lab.ledger.asked.values():
        body = bodies[asked.id]
        if asked.heard is None or body is None:
            verdict.lost.add(asked.id)
        if body is not None:
            result = json.loads(body)
            asked.attempts = result["attempts"]
            asked.claimed_at = (result["timing"].get("claimed_ms") or 0.0) / 1000 + to_monotonic
            _judge_one(verdict, asked, body, result, watcher)
    await _judge_letters(verdict, lab)
    await _judge_leftovers(verdict, lab)
    return verdict


def _judge_one(verdict: Verdict, asked: Asked, body: bytes, result: dict[str, Any], watcher: Watcher) -> None:
    if watcher.seen.get(asked.id, crc32(body)) != crc32(body):
        verdict.doubled.add(asked.id)
    if asked.heard and asked.heard != fingerprint(result):
        verdict.doubled.add(asked.id)
    code = (result.get("error") or {}).get("code")
    if asked.poison is not None:
        if code != "poison":
            verdict.wrong.add(asked.id)
    elif code == "poison":
        verdict.convicted.add(asked.id)
    elif result["id"] != asked.id or result["status"] != "succeeded" or not _right(asked.id, result, watcher.real):
        verdict.wrong.add(asked.id)


def _right(request_id: str, result: dict[str, Any], real: bool) -> bool:
    """What a real model says nobody knows beforehand; that it read the prompt shows in its tokens."""
    text: str = result["outputs"][0]["text"]
    return bool(result["usage"]["prompt_tokens"]) if real else text.startswith(right_text(request_id))


async def _judge_letters(verdict: Verdict, lab: Lab) -> None:
    """Poison, all of it, and nothing else; each once."""
    stored = [letter for keys in lab.keys for letter in await lab.direct.lrange(keys.dead, 0, -1)]
    letters = [json.loads(letter)["id"] for letter in stored]
    poison = {asked.id for asked in lab.ledger.asked.values() if asked.poison is not None}
    verdict.convicted |= set(letters) - poison
    if missing := poison - set(letters):
        verdict.complaints.append(f"poison without a dead letter: {sorted(missing)[:5]}")
    if len(letters) != len(set(letters)):
        verdict.complaints.append("somebody has two dead letters")


async def _judge_leftovers(verdict: Verdict, lab: Lab) -> None:
    """Nothing waits, runs, or is leased; every key goes away by itself; the counters agree."""
    queue = lab.queue()
    give_up = time.monotonic() + EMPTY_S
    while True:
        info = await queue.info()
        left = {name: getattr(info, name) for name in ("waiting", "retry", "inflight", "leases")}
        left["batches"] = sum([await lab.direct.hlen(keys.batches) for keys in lab.keys])
        if not any(left.values()):
            break
        if time.monotonic() > give_up:
            verdict.complaints.append(f"left behind {EMPTY_S:.0f} s after the last answer: {left}")
            break
        await asyncio.sleep(0.2)
    if leaks := await immortal_keys(lab):
        verdict.complaints.append(f"keys that would stay for ever: {leaks[:5]}")
    poison = sum(asked.poison is not None for asked in lab.ledger.asked.values())
    expected = {"succeeded": len(lab.ledger.asked) - poison, "failed": poison}
    counted = {name: info.counters.get(name, 0) for name in expected}
    if counted != expected and lab.options.fsync == "always":
        verdict.complaints.append(f"results written by the counters {info.counters}, requests {expected}")


async def immortal_keys(lab: Lab) -> list[str]:
    """Keys that would stay for ever, other than those that hold the queue itself."""
    named = [name for name, part in vars(Keys).items() if isinstance(part, property)]
    lasting = {str(getattr(keys, name)) for keys in lab.keys for name in named} | {keys.queue for keys in lab.keys}
    lasting -= {keys.workers for keys in lab.keys}
    found = [key.decode() async for key in lab.direct.scan_iter(count=5000)]
    immortal = []
    for start in range(0, len(found), CHUNK):
        pipeline = lab.direct.pipeline(transaction=False)
        for key in found[start : start + CHUNK]:
            pipeline.pttl(key)
        immortal += [key for key, left in zip(found[start:], await pipeline.execute(), strict=False) if left == -1]
    return sorted(set(immortal) - lasting)

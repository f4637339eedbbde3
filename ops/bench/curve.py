"""How well a worker knows how long its batches take: SmolLM2 on vLLM on the CPU, batches of mixed sizes and lengths.

A worker runs batches, one at a time, and fits its curve as it always does. Then the curve it has published is held
against batches that it has not seen. Each batch is sent alone and in one call, so that exactly these rows ride
together; lengths are forced. Sizes, prompts and lengths are drawn anew for each batch, so that slow spells of the
machine fall on all shapes alike. Every batch is kept in the file, to try other forms on.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import median
from typing import Any

from lab import own_redis, own_worker, write

from busload import AsyncClient
from busload_shared.curve import ServiceCurve
from busload_worker.simulation.outcome import percentile
from busload_worker.smollm import smollm2_dtype, smollm2_folder

MAX_MODEL_LEN = 1024
FIRST_TOKEN, TOKENS = 1000, 30_000
"""Prompts are random ids of ordinary tokens, so that their lengths are exact and no prefix is shared."""
HEARTBEAT_S = 1.5
BOUND = 0.05


@dataclass(frozen=True, slots=True)
class Batch:
    """What ran and how long it took."""

    rows: int
    prompt_tokens: int
    longest: int
    new_tokens: int
    ran_ms: float

    def predicted_ms(self, curve: ServiceCurve) -> float:
        """What the curve says."""
        return curve.predict_ms(prompt_tokens=self.prompt_tokens, longest=self.longest, new_tokens=self.new_tokens)


def drawn(rng: Random, name: str, *, size: int, median_tokens: int) -> list[dict[str, Any]]:
    """A batch of 1 to `size` rows, each as likely; lognormal prompts and answers about a middle that is the batch's
    own."""
    prompt, answer = rng.uniform(8, 160), median_tokens * math.exp(rng.gauss(0, 0.4))
    return [_row(rng, f"{name}-{i}", prompt=prompt, answer=answer) for i in range(rng.randint(1, size))]


def _row(rng: Random, name: str, *, prompt: float, answer: float) -> dict[str, Any]:
    tokens = max(1, min(256, round(answer * math.exp(rng.gauss(0, 0.7)))))
    length = max(1, min(512, round(prompt * math.exp(rng.gauss(0, 0.5)))))
    ids = [FIRST_TOKEN + rng.randrange(TOKENS) for _ in range(length)]
    forced = {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0.0}
    return {"id": name, "prompt_token_ids": ids, **forced}


async def ride(client: AsyncClient, rows: Sequence[dict[str, Any]]) -> Batch:
    """Send them together and see that they rode together."""
    await client.submit_many(rows)
    results = [result async for result in client.as_completed([row["id"] for row in rows], timeout_s=600)]
    for result in results:
        assert result.status == "succeeded", result.error
        assert result.batch is not None
        assert result.batch.size == len(rows), "others rode along, or not all rode together"
    usages = [result.usage for result in results if result.usage is not None]
    return Batch(
        len(rows),
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        longest=max(usage.completion_tokens for usage in usages),
        new_tokens=sum(usage.completion_tokens for usage in usages),
        ran_ms=max(result.timing.run_ms for result in results if result.timing is not None),
    )


async def measured(url: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Rounds of learning and of batches that are predicted; the worker goes on learning all the while."""
    rng, found = Random(args.seed), []
    async with AsyncClient(url) as client:
        for turn in range(args.rounds):
            learned = await _batches(client, rng, f"{turn}-learn", args.learn, args)
            await asyncio.sleep(HEARTBEAT_S)  # the worker publishes its curve with its heartbeat
            worker = (await client.queue_info()).workers[0]
            curve = worker.curve
            assert curve is not None, "too few batches to learn from"
            held_out = await _batches(client, rng, f"{turn}-test", args.test, args)
            found.append({"vllm": worker.version, "curve": curve, "learned": learned, "held_out": held_out})
            report(f"round {turn + 1} of {args.rounds}", curve, held_out)
    return found


async def _batches(client: AsyncClient, rng: Random, name: str, count: int, args: argparse.Namespace) -> list[Batch]:
    began, batches = time.monotonic(), []
    for number in range(count):
        rows = drawn(rng, f"{name}-{number}", size=args.size, median_tokens=args.tokens)
        batches.append(await ride(client, rows))
        print(f"\r  {name}: {number + 1} of {count} batches, {time.monotonic() - began:.0f} s ", end="", flush=True)
    print()
    return batches


def errors(curve: ServiceCurve, batches: Sequence[Batch]) -> list[float]:
    """Relative, signed: over 0 where a batch took longer than predicted."""
    return [batch.ran_ms / batch.predicted_ms(curve) - 1 for batch in batches]


def report(name: str, curve: ServiceCurve, held_out: Sequence[Batch]) -> None:
    """The curve, its errors, and whether they hang on the batch's size."""
    print(f"  {name}: " + ", ".join(f"{key} {value:.3f}" for key, value in curve.model_dump().items()))
    print(f"    error on {len(held_out)} batches: {summary(errors(curve, held_out))}")
    by_size = sorted(held_out, key=lambda batch: batch.rows)
    for quarter in range(4):
        some = by_size[quarter * len(by_size) // 4 : (quarter + 1) * len(by_size) // 4]
        if some:
            middle = median(errors(curve, some))
            print(f"      batches of {some[0].rows:>2} to {some[-1].rows:>2} rows: {middle:+.1%} in the middle")


def summary(found: Sequence[float]) -> str:
    """Median and ninth decile of their sizes."""
    sizes = sorted(abs(error) for error in found)
    return f"median {median(sizes):.1%}, p90 {percentile(sizes, 0.9):.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learn", type=int, default=40, help="batches of a round that are only learned from")
    parser.add_argument("--test", type=int, default=25, help="batches of a round that are predicted")
    parser.add_argument("--size", type=int, default=16, help="most rows in a batch")
    parser.add_argument("--tokens", type=int, default=32, help="median length of an answer")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    vllm = {"vllm_max_model_len": MAX_MODEL_LEN, "vllm_dtype": smollm2_dtype()}
    print(f"SmolLM2-135M, vLLM on the CPU, {vllm['vllm_dtype']}, batches of 1 to {args.size} rows")
    model = str(smollm2_folder())
    with (
        own_redis() as url,
        own_worker(url, engine="vllm", model=model, max_batch_size=args.size, max_wait_ms=20, **vllm),
    ):
        rounds = asyncio.run(measured(url, args))
    held_out = [error for one in rounds for error in errors(one["curve"], one["held_out"])]
    middle = median(map(abs, held_out))
    print(f"  all {len(held_out)} batches: {summary(held_out)}; at most {BOUND:.0%} in the middle is wanted")
    kept = [
        {"curve": one["curve"].model_dump()}
        | {part: [asdict(b) for b in one[part]] for part in ("learned", "held_out")}
        for one in rounds
    ]
    given = {name: getattr(args, name) for name in ("learn", "test", "size", "tokens", "seed")}
    p90 = percentile(sorted(map(abs, held_out)), 0.9)
    write("curve", {"vllm": rounds[0]["vllm"], **given, "median_error": middle, "p90_error": p90, "rounds": kept})


if __name__ == "__main__":
    main()

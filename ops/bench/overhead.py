"""What the queue costs beside a real engine: full batches through Busload against `LLM.generate` on the same ones.

Both run vLLM with the same options, one after the other, never together: two engines on a small machine slow each
other. Busload's time goes from the submit of all batches to the last Result in the client's hands.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time

import redis
from lab import HERE, own_redis, own_worker, show, spread, write

from busload import AsyncClient
from busload_worker.smollm import smollm2_dtype, smollm2_folder

MAX_MODEL_LEN = 1024


def requests(batches: int, size: int, tokens: int) -> list[dict[str, object]]:
    """The same work for both: prompts of mixed length, a fixed number of new tokens."""
    return [
        {
            "id": f"r{i}",
            "prompt": "Tell me about the number " + ", ".join(str(n) for n in range(i % 17 + 1)) + ".",
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0.0,
        }
        for i in range(batches * size)
    ]


async def through_busload(url: str, work: list[dict[str, object]]) -> tuple[float, float]:
    """Seconds from the first submit to the last result, and how many of them the engine was not running."""
    ran: dict[str, float] = {}
    async with AsyncClient(url) as client:
        began = time.perf_counter()
        await client.submit_many(work)
        async for result in client.as_completed([str(request["id"]) for request in work]):
            assert result.status == "succeeded", result.error
            assert result.batch is not None
            assert result.timing is not None
            ran[result.batch.id] = max(ran.get(result.batch.id, 0.0), result.timing.run_ms / 1000)
        took = time.perf_counter() - began
    return took, took - sum(ran.values())


def bare(model: str, batches: int, size: int, tokens: int) -> float:
    """Seconds of the same batches through LLM.generate in a process of its own."""
    words = [sys.executable, str(HERE / "bare_generate.py"), model, str(batches), str(size), str(tokens)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def busload(model: str, batches: int, size: int, tokens: int) -> tuple[float, float]:
    """Seconds of the batches through a worker of its own, and the engine's idle seconds among them."""
    with (
        own_redis() as url,
        own_worker(
            url,
            engine="vllm",
            model=model,
            max_batch_size=size,
            vllm_max_model_len=MAX_MODEL_LEN,
            vllm_dtype=smollm2_dtype(),
        ),
    ):
        asyncio.run(through_busload(url, requests(1, size, tokens)))  # a first batch, as the bare side runs one
        redis.Redis.from_url(url).flushall()
        return asyncio.run(through_busload(url, requests(batches, size, tokens)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    model, shape = str(smollm2_folder()), (args.batches, args.size, args.tokens)
    print(f"{args.batches} full batches of {args.size}, {args.tokens} new tokens each, SmolLM2-135M, vLLM on the CPU")
    ours, theirs, idle = [], [], []
    for turn in range(args.repeats):
        for side in ("busload", "bare") if turn % 2 == 0 else ("bare", "busload"):
            if side == "bare":
                theirs.append(bare(model, *shape))
                print(f"  LLM.generate {theirs[-1]:8.2f} s", flush=True)
            else:
                took, not_running = busload(model, *shape)
                ours.append(took)
                idle.append(100 * not_running / took)
                print(
                    f"  Busload      {took:8.2f} s, the engine ran in all but {not_running * 1000:.0f} ms", flush=True
                )
    ratios = [mine / bare for mine, bare in zip(ours, theirs, strict=True)]
    show("through Busload", ours, "s")
    show("through LLM.generate", theirs, "s")
    show("ratio, pair by pair", ratios, "")
    show("share of Busload's time in which the engine did not run", idle, "%")
    figures = {"busload_s": ours, "generate_s": theirs, "ratio": ratios, "idle_percent": idle}
    write("overhead", {name: spread(values) for name, values in figures.items()})


if __name__ == "__main__":
    main()

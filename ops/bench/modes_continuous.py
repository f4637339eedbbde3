"""The continuous side of the modes benchmark: one `LLM.generate` over all, vLLM filling free seats at every step.

Reads lines of JSON, each a list of requests, from its standard input, and answers each with one line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from modes_engine import KV_BYTES, MAX_MODEL_LEN, PROCESSOR

from busload_worker.engines.vllm_settings import prepare_environment
from busload_worker.smollm import smollm2_dtype


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # libraries may print on standard output
    os.dup2(2, 1)
    model, size = sys.argv[1], int(sys.argv[2])
    prepare_environment()
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=model,
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=size,
        max_num_batched_tokens=size * MAX_MODEL_LEN,
        enforce_eager=True,
        dtype=smollm2_dtype(),
        kv_cache_memory_bytes=KV_BYTES,
        logits_processors=[PROCESSOR],
        disable_log_stats=False,
    )

    def run(work: list[dict[str, Any]]) -> dict[str, Any]:
        names = ("max_tokens", "seed", "ignore_eos", "temperature")
        params = [SamplingParams(**{name: one[name] for name in names if name in one}) for one in work]
        began, clock = time.perf_counter(), time.monotonic()
        made = engine.generate([one["prompt"] for one in work], params, use_tqdm=False)
        took = time.perf_counter() - began
        return {
            "seconds": took,
            "latencies_s": [one.metrics.last_token_ts - clock for one in made],
            "tokens": [len(one.outputs[0].token_ids) for one in made],
        }

    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()

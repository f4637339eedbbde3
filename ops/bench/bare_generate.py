"""The bare side of the overhead benchmark: the same batches, one `LLM.generate` each. Prints one JSON line."""

from __future__ import annotations

import json
import sys
import time

from overhead import MAX_MODEL_LEN, requests

from busload_worker.engines.vllm_settings import prepare_environment
from busload_worker.smollm import smollm2_dtype


def main() -> None:
    model, batches, size, tokens = sys.argv[1], *map(int, sys.argv[2:])
    prepare_environment()
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=model,
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=size,
        max_num_batched_tokens=size * MAX_MODEL_LEN,
        enforce_eager=True,
        dtype=smollm2_dtype(),
        kv_cache_memory_bytes=1 << 30,
    )

    def run(work: list[dict[str, object]]) -> None:
        params = [SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0) for _ in work]
        engine.generate([str(request["prompt"]) for request in work], params, use_tqdm=False)

    run(requests(1, size, tokens))
    work = requests(batches, size, tokens)
    began = time.perf_counter()
    for start in range(0, len(work), size):
        run(work[start : start + size])
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()

"""Ask one question and wait for its answer.

python docs/examples/generate.py "The capital of France is"
"""

import os
import sys

from busload import Client, ResultTimeout

url = os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0")
prompt = sys.argv[1] if len(sys.argv) > 1 else "The capital of France is"

with Client(url) as client:
    try:
        result = client.generate(prompt=prompt, max_tokens=16, temperature=0, timeout_s=60)
    except ResultTimeout as error:  # the request goes on: client.result(id) waits for it again
        sys.exit(f"{error}; is a worker running?")

if result.error is not None:
    sys.exit(f"{result.status}: {result.error.message}")
print(result.text)
if result.batch and result.timing:
    print(f"one of {result.batch.size} in its batch, which left because: {result.batch.trigger}")
    print(f"waited {result.timing.waited_ms:.0f} ms, ran {result.timing.run_ms:.0f} ms")

"""Ask several questions at once, then one more about their answers.

A whole fan-out comes in at the same moment, so it rides in one batch if that has room.

python docs/examples/fan_out.py
"""

import os

from busload import Client

ASPECTS = ("price", "quality", "delivery", "service")

url = os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0")

with Client(url) as client:
    parts = client.submit_many(
        {"prompt": f"What do customers say of the {aspect}?", "max_tokens": 24, "metadata": {"aspect": aspect}}
        for aspect in ASPECTS
    )
    said: dict[str, str] = {}
    for result in client.as_completed([part.id for part in parts], timeout_s=60):
        aspect = str((result.metadata or {})["aspect"])
        said[aspect] = result.text or f"({result.status})"
        print(f"{aspect}: {said[aspect]}")
    notes = "\n".join(f"{aspect}: {said[aspect]}" for aspect in ASPECTS)
    print("in short:", client.generate(prompt=f"{notes}\nIn one sentence:", max_tokens=32, timeout_s=60).text)

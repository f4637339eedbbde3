"""Ask with nothing but a Redis client, as any language can: LPUSH the request, GET the result.

python docs/examples/raw_producer.py
"""

import json
import os
import sys
import time
from uuid import uuid4

import redis

QUEUE = "busload:default"

client = redis.Redis.from_url(os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0"))
request_id = uuid4().hex
client.lpush(QUEUE, json.dumps({"id": request_id, "prompt": "The capital of France is", "max_tokens": 8}))

give_up = time.monotonic() + 60
while (body := client.get(f"{{{QUEUE}}}:result:{request_id}")) is None:
    if time.monotonic() > give_up:
        sys.exit("no result after 60 s; is a worker running?")
    time.sleep(0.05)  # docs/protocol.md tells how to be told instead

result = json.loads(body)
print(result["status"], result["outputs"][0]["text"] if result["outputs"] else result["error"]["message"])

"""Enqueue in one process, wait in another: all that passes between them is the id.

id=$(python docs/examples/wait_elsewhere.py submit "The capital of France is")
python docs/examples/wait_elsewhere.py wait "$id"
"""

import os
import sys

from busload import Client, RequestUnknown, ResultExpired, ResultTimeout

if len(sys.argv) != 3:
    sys.exit(__doc__)
verb, word = sys.argv[1:]

with Client(os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0")) as client:
    if verb == "submit":
        print(client.submit(prompt=word, max_tokens=16, metadata={"from": "the web shop"}).id)
    elif verb == "wait":
        try:
            result = client.result(word, timeout_s=60)
        except ResultTimeout:
            sys.exit("not yet: ask again with the same id")
        except (RequestUnknown, ResultExpired) as error:
            sys.exit(str(error))
        print(result.status, result.text, result.metadata)
    else:
        sys.exit("write: submit PROMPT, or: wait ID")

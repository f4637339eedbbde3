"""Say what is urgent, and until when an answer is of use.

python docs/examples/deadline_and_priority.py
"""

import os
import time

from busload import Client, DeadlineUnmeetable

url = os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0")

with Client(url) as client:
    # One point boards like ten seconds of waiting, so that the low ones have their turn too.
    nightly = client.submit(prompt="Summarise the day", max_tokens=32, priority=-10)
    urgent = client.submit(prompt="A user is waiting: hello", max_tokens=8, priority=20)
    # Half a minute from its arrival; `deadline` is the same as Unix time, in seconds.
    chat = client.submit(prompt="Good morning", max_tokens=8, ttl_s=30)
    names = {nightly.id: "nightly", urgent.id: "urgent", chat.id: "chat"}
    for result in client.as_completed(names, timeout_s=60):
        print(names[result.id], result.status)

    # What is too late is not run. A client may know it at once, by the workers' own figures.
    try:
        late = client.generate(prompt="Too late", deadline=time.time() - 1, timeout_s=60)
        print("late", late.status, "-", late.error.message if late.error else "")
    except DeadlineUnmeetable as error:
        print("late refused -", error)

"""What Celery's Redis broker did with each task's message, as Redis itself saw it (MONITOR).

The broker pops a message with BRPOP, writes it into its hash `unacked`, and only then hands it to the worker. A message
that was popped and never came into `unacked` was lost by the broker: no code of the application, and so none of ours,
has seen it. The pop itself is not in MONITOR when it had to wait.
"""

from __future__ import annotations

import queue
import re
import threading
import uuid
from collections import Counter

import redis

TIMEOUT_S = 20.0
LAST = "the last"

_UUID = "([0-9a-f]{8}-[0-9a-f-]{27})"
_SENT = re.compile(rf'^[LR]PUSH celery .*?"id": "{_UUID}"')
_TAKEN = re.compile(rf'^HSET unacked .*?"id": "{_UUID}"')
_PARKED = re.compile(rf"^HSET \S+:parked:celery:{_UUID} ")


class BrokerWatch:
    """Counts by task id, from its making until `close`: sends, those of the broker's own restoring among them, takes,
    and whatever was written to the task's ticket."""

    def __init__(self, port: int) -> None:
        self.sent: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.parked: Counter[str] = Counter()
        self._redis = redis.Redis(port=port, db=1, socket_timeout=None)  # in the broker's database: others are cut
        self._marks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._monitor = self._redis.monitor()
        self._monitor.__enter__()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for seen in self._monitor.listen():
            command = str(seen["command"])
            for pattern, counter in ((_SENT, self.sent), (_TAKEN, self.taken), (_PARKED, self.parked)):
                if found := pattern.search(command):
                    counter[found.group(1)] += 1
            if command.startswith("ECHO "):
                self._marks.put(command.removeprefix("ECHO "))
            if command == f"ECHO {LAST}":
                return

    def up_to_now(self, mark: str = "") -> None:
        """Everything that Redis did before this call is counted."""
        mark = mark or uuid.uuid4().hex
        self._redis.echo(mark)
        while self._marks.get(timeout=TIMEOUT_S) != mark:
            pass

    def lost_it(self, task_id: str) -> bool:
        """Whether the broker popped a message of this task for a worker and never handed it over, and no run of it was
        ever parked. Asked of a task whose message is nowhere; what was parked once is ours to keep."""
        return not self.parked[task_id] and self.sent[task_id] > self.taken[task_id]

    def told(self, task_id: str) -> str:
        """What was seen of a task."""
        sent, taken, parked = self.sent[task_id], self.taken[task_id], self.parked[task_id]
        return f"{task_id}: sent {sent}, handed over {taken}, its ticket written {parked} times"

    def close(self) -> None:
        self.up_to_now(LAST)
        self._thread.join(TIMEOUT_S)
        self._monitor.__exit__(None, None, None)
        self._redis.close()

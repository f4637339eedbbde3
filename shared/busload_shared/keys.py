"""Every Redis key of a queue. The queue is named by its list `L`; the rest hangs off `{L}:`.

    L                    LIST    waiting: producers LPUSH, workers take from the right      claim
    {L}:ranked           ZSET    waiting with a priority: element -> arrival - priority steps   claim
    {L}:deadlines        ZSET    waiting request's id -> deadline, Unix ms                  claim, expire
    {L}:retry            LIST    suspects in groups, to run again (`=<group size> ` first)  claim
    {L}:inflight         HASH    `batch:i` -> element, claimed and not yet answered         deliver, reclaim
    {L}:leases           ZSET    batch -> lease expiry, Unix ms of the Redis clock          deliver, reclaim
    {L}:batches          HASH    batch -> size, trigger, claimed at, worker; `batch#left`   deliver, reclaim
    {L}:dead             LIST    dead letters, newest left                                  redrive, purge
    {L}:result:<id>      STRING  exactly one Result                                         expiry
    {L}:state:<id>       STRING  `w` waiting, `r batch:i` ran or runs, `d` cancelled                 expiry
    {L}:cancel:<id>      STRING  a cancel that holds while no worker is up                  expiry
    {L}:workers          ZSET    worker -> last heartbeat, Unix ms                          its own expiry
    {L}:worker:<name>    STRING  what the worker is and does                                expiry
    {L}:past:<name>      STRING  the last batches of that worker                            expiry
    {L}:stats            HASH    counters since the queue's first day                       bounded fields
    {L}:layout           STRING  the layout of these keys, `1`; `1>2` while it changes              never
    {L}:migrating        STRING  who changes it                                             its own expiry
    {L}:replicated       STRING  written before WAIT, only with `wait_replicas`             expiry
    {L}:lengths          HASH    route -> observations, sum, squares of ln(length)          its own expiry
    {L}:parked           ZSET    ticket of a Celery task that waits -> next look, Unix ms   claim, its own expiry
    {L}:landing          ZSET    ticket that is being woken -> lease expiry, Unix ms        settle, its own expiry
    {L}:parked:<ticket>  HASH    its request's id, the message to publish, who runs it      settle, expiry
    {L}:report:<name>    STRING  what a housekeeping task did in one interval               expiry
    {L}:redriven:<id>    STRING  how often housekeeping put this dead letter back           expiry
    {L}:done:<id>        channel the result of one id is there
    {L}:reply:<client>   channel results for the client that submitted them

Braces in the list's name would end the hash tag early and put the keys in different cluster slots, so such
names are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import SettingsInvalid


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the queue whose list is called `queue`. Raises SettingsInvalid for an unfit name."""

    queue: str

    def __post_init__(self) -> None:
        name = self.queue
        if not 1 <= len(name) <= 128 or any(c in "{}" or not c.isprintable() or c.isspace() for c in name):
            raise SettingsInvalid(
                f"queue name {name[:64]!r}: give 1 to 128 printable characters without spaces and braces, "
                "such as busload:default"
            )

    def _named(self, part: str) -> str:
        return "{" + self.queue + "}:" + part

    @property
    def retry(self) -> str:
        return self._named("retry")

    @property
    def ranked(self) -> str:
        return self._named("ranked")

    @property
    def deadlines(self) -> str:
        return self._named("deadlines")

    @property
    def inflight(self) -> str:
        return self._named("inflight")

    @property
    def leases(self) -> str:
        return self._named("leases")

    @property
    def batches(self) -> str:
        return self._named("batches")

    @property
    def dead(self) -> str:
        return self._named("dead")

    @property
    def workers(self) -> str:
        return self._named("workers")

    @property
    def stats(self) -> str:
        return self._named("stats")

    @property
    def layout(self) -> str:
        return self._named("layout")

    @property
    def migrating(self) -> str:
        return self._named("migrating")

    @property
    def replicated(self) -> str:
        return self._named("replicated")

    @property
    def lengths(self) -> str:
        return self._named("lengths")

    @property
    def parked(self) -> str:
        return self._named("parked")

    @property
    def landing(self) -> str:
        return self._named("landing")

    def ticket(self, ticket: str) -> str:
        return self._named("parked:") + ticket

    def report(self, name: str) -> str:
        return self._named("report:") + name

    def redriven(self, request_id: str) -> str:
        return self._named("redriven:") + request_id

    def result(self, request_id: str) -> str:
        return self._named("result:") + request_id

    def state(self, request_id: str) -> str:
        return self._named("state:") + request_id

    def cancel(self, request_id: str) -> str:
        return self._named("cancel:") + request_id

    def worker(self, name: str) -> str:
        return self._named("worker:") + name

    def past(self, name: str) -> str:
        return self._named("past:") + name

    def done(self, request_id: str) -> str:
        return self._named("done:") + request_id

    def reply(self, client: str) -> str:
        return self._named("reply:") + client

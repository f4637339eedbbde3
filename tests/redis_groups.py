"""Groups of real Redis servers: a cluster, and a master with replicas that sentinels watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations, count
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot
from tests.redis_servers import Server

SLOTS = 16384
MASTER = "busload"


def until(true: Callable[[], object], what: str, *, timeout_s: float = 30) -> None:
    """Ask every few ms until the answer is truthy; a server that cannot be asked says no."""
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            if true():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < give_up, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def ask(server: Server, *command: object) -> Any:
    """One command to one server."""
    with server.client() as client:
        return client.execute_command(*command)


class Cluster:
    """Masters that share the slots evenly. `replicas` are added by `add_replica`."""

    def __init__(self, binary: Path, version: str, *, masters: int = 3) -> None:
        self._make: Callable[[], Server] = lambda: Server(
            binary, version, {"cluster-enabled": "yes", "cluster-node-timeout": "1000", "repl-diskless-sync-delay": "0"}
        )
        self.masters = [self._make() for _ in range(masters)]
        self.replicas: list[Server] = []
        self._numbers = count()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.masters)

    def start(self) -> None:
        share = -(-SLOTS // len(self.masters))
        for number, server in enumerate(self.masters):
            server.start()
            ask(server, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            ask(server, "CLUSTER", "ADDSLOTS", *range(number * share, min((number + 1) * share, SLOTS)))
        for one, other in combinations(self.masters, 2):
            ask(one, "CLUSTER", "MEET", "127.0.0.1", other.port)
        self._agreed()

    def add_replica(self, master: Server) -> Server:
        """A new server that follows this master."""
        replica = self._make()
        self.replicas.append(replica)
        replica.start()
        for other in self.masters:
            ask(replica, "CLUSTER", "MEET", "127.0.0.1", other.port)
        until(lambda: ask(replica, "CLUSTER", "REPLICATE", master_id(master)), "it is a replica")
        until(lambda: ask(replica, "INFO", "replication")["master_link_status"] == "up", "it has all data")
        self._agreed()
        return replica

    def _agreed(self) -> None:
        servers = [*self.masters, *self.replicas]

        def agreed() -> bool:
            seen = [ask(server, "CLUSTER INFO") for server in servers]
            return all(i["cluster_state"] == "ok" and int(i["cluster_known_nodes"]) == len(servers) for i in seen)

        until(agreed, "the nodes agree")

    def owner(self, queue: str) -> Server:
        """The master that the cluster takes for the owner of the queue's slot."""
        slot = key_slot(queue.encode())
        for first, last, (_, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(s for s in [*self.masters, *self.replicas] if s.port == port)
        raise AssertionError(f"nobody owns slot {slot}")

    def _slots(self) -> list[Any]:
        with self.masters[0].client() as client:
            client.response_callbacks.clear()
            return list(client.execute_command("CLUSTER", "SLOTS"))

    def queue_on(self, server: Server) -> str:
        """The name of a queue nobody has used, whose slot is there."""
        return next(name for name in map("busload:q{}".format, self._numbers) if self.owner(name) is server)

    def remove(self) -> None:
        for server in [*self.masters, *self.replicas]:
            server.remove()


def master_id(server: Server) -> str:
    """The node's own id."""
    answer = ask(server, "CLUSTER", "MYID")
    return str(answer.decode() if isinstance(answer, bytes) else answer)


class Migration:
    """One slot on its way from one master to another."""

    def __init__(self, queue: str, source: Server, target: Server, bystanders: list[Server]) -> None:
        self.slot = key_slot(queue.encode())
        self._source, self._target, self._bystanders = source, target, bystanders

    def begin(self) -> None:
        ask(self._target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", master_id(self._source))
        ask(self._source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", master_id(self._target))

    def move_all(self) -> int:
        """Move the keys, a few at a time. Returns how many went."""
        moved = 0
        while keys := ask(self._source, "CLUSTER", "GETKEYSINSLOT", self.slot, 3):
            ask(self._source, "MIGRATE", "127.0.0.1", self._target.port, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end(self) -> None:
        """The target owns the slot, and all know it."""
        for server in (self._target, self._source, *self._bystanders):
            ask(server, "CLUSTER", "SETSLOT", self.slot, "NODE", master_id(self._target))


class Sentinel(Server):
    """A sentinel that watches `master` and takes it for dead after half a second."""

    def __init__(self, binary: Path, version: str, master: Server, more: str = "") -> None:
        """`more` are lines for its configuration, where PORT is its port."""
        super().__init__(binary, version)
        self._master_port = master.port
        self._settings = more

    def _words(self) -> list[str]:
        conf = self.folder / "sentinel.conf"
        if not conf.exists() or f"port {self.port}\n" not in conf.read_text():
            conf.write_text(
                f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nlogfile {self.folder}/log\n"
                f"sentinel monitor {MASTER} 127.0.0.1 {self._master_port} 2\n"
                f"sentinel down-after-milliseconds {MASTER} 500\n"
                f"sentinel failover-timeout {MASTER} 2000\n{self._settings.replace('PORT', str(self.port))}"
            )
        return [str(conf), "--sentinel"]


class Watched:
    """A master, its replica, and three sentinels."""

    def __init__(self, binary: Path, version: str, more: dict[str, str] | None = None) -> None:
        """`more` are settings of the two servers."""
        settings = {"repl-diskless-sync-delay": "0", "repl-timeout": "5", **(more or {})}
        self.first, self.second = (Server(binary, version, settings) for _ in range(2))
        self._make: Callable[[], Sentinel] = lambda: Sentinel(binary, version, self.first)
        self.sentinels: list[Sentinel] = []

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{s.port}' for s in self.sentinels)}/{MASTER}/0"

    def start(self) -> None:
        for server in (self.first, self.second):
            server.start()
        ask(self.second, "REPLICAOF", "127.0.0.1", self.first.port)
        until(lambda: ask(self.second, "INFO", "replication")["master_link_status"] == "up", "the replica has all data")
        self.sentinels = [self._make() for _ in range(3)]
        for sentinel in self.sentinels:
            sentinel.start()
        until(lambda: all(map(self._ready, self.sentinels)), "the sentinels know each other and the replica")

    def _ready(self, sentinel: Sentinel) -> bool:
        with sentinel.client() as client:
            state = client.sentinel_master(MASTER)
        return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)

    def master(self) -> Server:
        """Whom the first sentinel takes for the master."""
        with self.sentinels[0].client() as client:
            _, port = client.sentinel_get_master_addr_by_name(MASTER)
        return next(server for server in (self.first, self.second) if server.port == int(port))

    def remove(self) -> None:
        for server in [*self.sentinels, self.first, self.second]:
            server.remove()

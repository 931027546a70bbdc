"""Three servers of one store, and three sentinels that elect the primary; all on loopback."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import redis

from qserver.config import LOOPBACK
from qserver.storage.server.embedded_store import end_with_parent, server_binary

NAME = "store"
_N = 3
N_REPLICAS = _N - 1
_START_S = 120.0
_SERVER = """\
port {port}
bind 127.0.0.1
dir {folder}
appendonly yes
appendfsync always
no-appendfsync-on-rewrite no
maxmemory-policy noeviction
save ""
repl-diskless-sync-delay 0
min-replicas-to-write 1
min-replicas-max-lag 10
"""
_SENTINEL = """\
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {name} 127.0.0.1 {primary} 2
sentinel down-after-milliseconds {name} 1000
sentinel failover-timeout {name} 3000
"""


class Node:
    """One server or sentinel; it rewrites its own configuration, as after an election."""

    def __init__(self, folder: Path, port: int, text: str, *, is_sentinel: bool) -> None:
        folder.mkdir()
        self.folder, self.port = folder, port
        self._config, self._is_sentinel = folder / "conf", is_sentinel
        self._config.write_text(text)
        self.start()

    def start(self) -> None:
        """Start the process with the configuration that it left."""
        mode = ("--sentinel",) if self._is_sentinel else ()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["valkey-server", str(self._config), *mode],
                executable=server_binary(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=functools.partial(end_with_parent, os.getpid()),
            )

    def send(self, number: int) -> None:
        """Send a signal; a killed process is gone afterwards."""
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait()

    def kill(self) -> None:
        """End it, also while it is held still."""
        self.send(signal.SIGKILL)

    def answers(self) -> bool:
        """Whether it is up."""
        with contextlib.suppress(redis.RedisError):
            return bool(self.client.ping())
        return False

    @property
    def client(self) -> redis.Redis:
        """A plain client of this very node."""
        return redis.Redis(LOOPBACK, self.port, decode_responses=True, socket_timeout=5, protocol=2)


class SentinelGroup:
    """A context manager: a primary, its two replicas, three sentinels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.servers: list[Node] = []
        self.sentinels: list[Node] = []

    def __enter__(self) -> Self:
        ports = free_ports(2 * _N)
        try:
            for i, port in enumerate(ports[:_N]):
                self._add(self.servers, f"server-{i}", port, _SERVER)
                if i:
                    wait_until(self.servers[-1].answers, what="start")
                    self.servers[-1].client.replicaof(LOOPBACK, str(ports[0]))
                    self.servers[-1].client.config_rewrite()
            wait_until(lambda: self.n_replicas() == N_REPLICAS, what="replicate")
            for i, port in enumerate(ports[_N:]):
                self._add(self.sentinels, f"sentinel-{i}", port, _SENTINEL, primary=ports[0])
            wait_until(self._sees_all, what="know one another")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        for node in (*self.sentinels, *self.servers):
            node.kill()

    @property
    def url(self) -> str:
        """The store's address."""
        places = ",".join(f"{LOOPBACK}:{node.port}" for node in self.sentinels)
        return f"redis+sentinel://{places}/{NAME}"

    def primary(self) -> Node:
        """The server that most sentinels name."""
        named = [
            int(node.client.sentinel_get_master_addr_by_name(NAME)[1]) for node in self.sentinels
        ]
        port = max(named, key=named.count)
        return next(node for node in self.servers if node.port == port)

    def n_replicas(self, node: Node | None = None) -> int:
        """Replicas that the first server, or another, has online."""
        with contextlib.suppress(redis.RedisError):
            info = (node or self.servers[0]).client.info("replication")
            found = [info[key] for key in info if key.startswith("slave") and key[5:].isdigit()]
            return sum(one["state"] == "online" for one in found) * (info["role"] == "master")
        return 0

    def is_whole(self) -> bool:
        """Whether the named primary has all replicas, and the sentinels know it."""
        return self.n_replicas(self.primary()) == N_REPLICAS and self._sees_all()

    def _sees_all(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            seen = [node.client.sentinel_master(NAME) for node in self.sentinels]
            found = {(s["num-slaves"], s["num-other-sentinels"], s["flags"]) for s in seen}
            replicas = [r for n in self.sentinels for r in n.client.sentinel_slaves(NAME)]
            return found == {(N_REPLICAS, _N - 1, "master")} and all(
                replica["flags"] == "slave" for replica in replicas
            )
        return False

    def _add(self, nodes: list[Node], name: str, port: int, text: str, *, primary: int = 0) -> None:
        folder = self._folder / name
        text = text.format(port=port, folder=folder, name=NAME, primary=primary)
        nodes.append(Node(folder, port, text, is_sentinel=nodes is self.sentinels))


def wait_until(met: Callable[[], bool], *, what: str) -> None:
    """Return once `met()`; TimeoutError after two minutes."""
    deadline = time.monotonic() + _START_S
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The servers must {what} within {_START_S} s.")
        time.sleep(0.05)


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(n)]
        return [one.getsockname()[1] for one in sockets]

"""Durability: the server keeps acknowledged writes, or nothing is spent.

`check_durable` reads the settings before work starts, and `check_failover` those of a store whose
sentinels may elect another primary. After a write, `await_durable` waits until
the server says that it is on disk. It does not trust the settings, which can change at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import redis

from qserver.errors import (
    ConfigError,
    StoreError,
    StoreNotDurableError,
    StoreUnavailableError,
)
from qserver.storage.server.connection import StoreClient

Covers = Literal["own_writes", "all_writes"]

_BARRIER_KEY = "qserver:barrier"


@dataclass(frozen=True)
class _Rule:
    """One setting, the values that keep every acknowledged write, and whether it is about
    persistence."""

    setting: str
    allowed: tuple[str, ...]
    reason: str
    persistence: bool = True


_RULES = (
    _Rule("maxmemory-policy", ("noeviction",), "charges could be evicted", persistence=False),
    _Rule("appendonly", ("yes",), "charges would be lost when the server ends"),
    _Rule("appendfsync", ("always", "everysec"), "charges could be lost in a power cut"),
    _Rule(
        "no-appendfsync-on-rewrite",
        ("no",),
        "charges made during a rewrite could be lost in a power cut",
    ),
)
# The same settings in INFO, for servers that forbid CONFIG.
_INFO_FIELDS = {"maxmemory-policy": "maxmemory_policy", "appendonly": "aof_enabled"}
_WRITE_STATUSES = {
    "aof_last_write_status": "Free or repair the server's disk; it goes on by itself.",
    "aof_last_bgrewrite_status": "Free or repair the server's disk, then run: BGREWRITEAOF",
}


def check_durable(client: redis.Redis, *, allow_volatile: bool) -> None:
    """Check the settings by which the server keeps acknowledged writes.

    A server that forbids CONFIG is judged by INFO. INFO does not show the fsync policy, but
    `await_durable` fails under `appendfsync no`.

    Args:
        allow_volatile: accept a server that loses its data when it ends; for toys. Eviction and
            replicas are refused all the same: they lose charges while the server runs.

    Raises:
        StoreNotDurableError: a setting, the role, or the last write to disk is wrong; the message
            says what to do.
        StoreUnavailableError: the server does not answer.
    """
    info: Mapping[str, Any] = client.info()
    role = info.get("role", "unknown")
    if role != "master":
        raise StoreNotDurableError(
            f"The server must be a primary, got {role}. Connect to the primary, or run: "
            "REPLICAOF NO ONE"
        )
    settings = _read_settings(client, info)
    for rule in _RULES:
        if not (rule.persistence and allow_volatile):
            _check_setting(rule, settings)
    if not allow_volatile:
        _check_last_writes(info)


def check_failover(client: StoreClient, *, replicas: int) -> None:
    """Check that a charge outlives its primary, where sentinels may elect another.

    They elect any replica, by offsets that are some seconds old, while the old primary still takes
    writes and its other replicas confirm them. So all must have a charge before anything is drawn.
    And a primary that was cut off must refuse what it can tell nobody.

    Args:
        replicas: number of replicas that `await_durable` waits for.

    Raises:
        StoreNotDurableError: for too few of those that the sentinels know, or a primary that was
            cut off would take writes.
        StoreUnavailableError: neither answers.
    """
    n_known = client.n_replicas()
    if n_known is None:
        return
    if replicas < max(1, n_known):
        raise StoreNotDurableError(
            f"`QSERVER_REPLICAS` must be {max(1, n_known)} with sentinels that may elect each of "
            f"{n_known} replicas, got {replicas}: a charge must be on all. Where some are gone for "
            "good, run on each sentinel: SENTINEL RESET NAME"
        )
    # INFO has this field where both settings are above 0, also on servers that forbid CONFIG.
    if "min_slaves_good_slaves" not in client.info("replication"):
        raise StoreNotDurableError(
            "`min-replicas-to-write` and `min-replicas-max-lag` must be above 0 with sentinels: a "
            "primary that was cut off would take writes that are lost. Run there and on each "
            "replica: CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 10"
        )


def await_durable(
    client: StoreClient,
    *,
    replicas: int,
    timeout_ms: int,
    covers: Covers = "all_writes",
    allow_volatile: bool = False,
) -> None:
    """Return once earlier writes are on the disk of the server and of `replicas` replicas.

    Call it right after the write, on the same single-connection client: the server counts from
    the last write of the connection that asks.

    Args:
        replicas: number of replicas that must have it on disk too.
        timeout_ms: how long to wait, in milliseconds; less than the client's timeout.
        covers: `own_writes`: the writes of this connection. `all_writes`: all writes that it can
            have seen, at the price of one more small write. A retry that finds its work done needs
            this, because it wrote nothing itself.
        allow_volatile: the server keeps nothing on disk; wait only for the memory of replicas.

    Raises:
        ConfigError: `replicas` or `timeout_ms` is out of range.
        StoreNotDurableError: too few acknowledged in time, or the connection broke since the
            write. The write may still take effect: find out before you do it again.
        StoreUnavailableError: the server does not answer.
    """
    _check_wait(client, replicas=replicas, timeout_ms=timeout_ms)
    n_reconnects = client.n_reconnects_at_write
    if covers == "all_writes":
        client.set(_BARRIER_KEY, "1")
    got = _wait(client, replicas=replicas, timeout_ms=timeout_ms, allow_volatile=allow_volatile)
    if client.n_reconnects != n_reconnects:
        raise StoreNotDurableError("The connection broke after the write, so its fate is unknown.")
    if got.n_local < 1 or got.n_replicas < replicas:
        raise StoreNotDurableError(
            f"The write must reach 1 server and {replicas} replicas within {timeout_ms} ms, "
            f"got {got.n_local} and {got.n_replicas}."
        )


@dataclass(frozen=True, kw_only=True)
class _Acknowledged:
    n_local: int
    n_replicas: int


def _wait(
    client: StoreClient, *, replicas: int, timeout_ms: int, allow_volatile: bool
) -> _Acknowledged:
    if allow_volatile:
        n_replicas = client.wait(replicas, timeout_ms) if replicas else 0
        return _Acknowledged(n_local=1, n_replicas=n_replicas)
    try:
        n_local, n_replicas = client.waitaof(1, replicas, timeout_ms)
    except redis.ResponseError as exc:
        raise StoreNotDurableError(
            f"The server must confirm writes to disk (WAITAOF), got the error: {exc}."
        ) from exc
    return _Acknowledged(n_local=n_local, n_replicas=n_replicas)


def _check_wait(client: StoreClient, *, replicas: int, timeout_ms: int) -> None:
    if not client.is_single_connection:
        raise StoreError("Durability must be awaited on a single-connection client.")
    if replicas < 0:
        raise ConfigError("replicas", "be >= 0", replicas)
    limit_ms = int(1000 * (client.get_connection_kwargs().get("socket_timeout") or 3600))
    if not 0 < timeout_ms < limit_ms:  # 0 would mean for ever
        raise ConfigError("timeout_ms", f"be > 0 and < {limit_ms}", timeout_ms)


def _read_settings(client: redis.Redis, info: Mapping[str, Any]) -> Mapping[str, str]:
    """Values of the readable settings in `_RULES`."""
    try:
        found = client.config_get(*(rule.setting for rule in _RULES))
        return {str(name): str(value) for name, value in found.items()}
    except StoreUnavailableError:
        raise
    except (redis.ResponseError, StoreError):
        # Managed servers rename or forbid CONFIG. `aof_enabled` is 0 or 1.
        known = {name: info[field] for name, field in _INFO_FIELDS.items() if field in info}
        spelled = {"0": "no", "1": "yes"}
        return {name: spelled.get(str(value), str(value)) for name, value in known.items()}


def _check_setting(rule: _Rule, settings: Mapping[str, str]) -> None:
    value = settings.get(rule.setting)
    if value is None and rule.setting in _INFO_FIELDS:
        raise StoreNotDurableError(
            f"`{rule.setting}` must be {rule.allowed[0]}, and the server lets us read it neither "
            "by CONFIG GET nor by INFO. Allow this user one of them: +config|get or +info"
        )
    if value is not None and value not in rule.allowed:
        raise StoreNotDurableError(
            f"`{rule.setting}` must be {' or '.join(rule.allowed)}, got {value}: {rule.reason}. "
            f"Run: CONFIG SET {rule.setting} {rule.allowed[0]}"
        )


def _check_last_writes(info: Mapping[str, Any]) -> None:
    for field, fix in _WRITE_STATUSES.items():
        status = info.get(field, "unknown")
        if status != "ok":
            raise StoreNotDurableError(f"`{field}` must be ok, got {status}. {fix}")

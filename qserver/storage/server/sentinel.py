"""Sentinels: servers that name a store's present primary, and elect a replica when it dies.

Every new connection asks them. One that is open stays with its server until that server ends it, so
what it acknowledges may be lost: `durability.check_failover` says what keeps charges then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from qserver.errors import ConfigError

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_PORT = 26379
_FORM = "name the sentinels and their primary, as redis+sentinel://host:26379,host:26379/NAME"


@dataclass(frozen=True, kw_only=True)
class SentinelAddress:
    """Where the sentinels of a store are, and what they call it.

    Args:
        sentinels: host and port of each.
        name: the primary's name, as in `sentinel monitor NAME`.
        db: the database's number.
        is_tls: whether the store and its sentinels are reached by TLS.
        options: credentials and files of certificates; not shown.
    """

    sentinels: tuple[tuple[str, int], ...]
    name: str
    db: int
    is_tls: bool
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, url: str) -> SentinelAddress:
        """The address in `redis+sentinel://[user:password@]HOST[:PORT],.../NAME[/DB]`.

        Raises:
            ConfigError: it has another form; the URL is not shown.
        """
        parts = urlsplit(url)
        user, _, places = parts.netloc.rpartition("@")
        name, _, db = parts.path.strip("/").partition("/")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        db = options.pop("db", "") or db or "0"
        if not name or not (db.isascii() and db.isdigit()):
            raise ConfigError("redis_url", _FORM)
        username, _, password = user.partition(":")
        named = {"username": unquote(username), "password": unquote(password)}
        return cls(
            sentinels=tuple(map(_place, places.split(","))),
            name=unquote(name),
            db=int(db),
            is_tls=parts.scheme == "rediss+sentinel",
            options={**{key: text for key, text in named.items() if text}, **options},
        )

    def __str__(self) -> str:
        scheme = "rediss+sentinel" if self.is_tls else "redis+sentinel"
        places = (f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.sentinels)
        return f"{scheme}://{','.join(places)}/{self.name}" + (f"/{self.db}" if self.db else "")

    def pool(self, *, timeout_s: float, **connection: Any) -> SentinelConnectionPool:
        """A pool whose every new connection goes to the primary that a sentinel names then.

        Args:
            timeout_s: limit for connecting to each server and for each reply, in seconds.
            connection: further options of the store's connections.
        """
        times = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
        tls = {key: text for key, text in self.options.items() if key.startswith("ssl_")}
        mine = {key: text for key, text in self.options.items() if key not in SENTINEL_OPTIONS}
        asked = {
            key.removeprefix("sentinel_"): self.options[key]
            for key in SENTINEL_OPTIONS & set(self.options)
        }
        secured: dict[str, Any] = {"ssl": True} if self.is_tls else {}
        retry = Retry(NoBackoff(), 0)
        sentinel: Any = Sentinel  # it has no types
        manager = sentinel(
            list(self.sentinels),
            sentinel_kwargs={**times, **secured, **tls, **asked, "retry": retry, "protocol": 2},
        )
        made: Any = SentinelConnectionPool
        found: SentinelConnectionPool = made(
            self.name, manager, db=self.db, **times, **secured, **mine, **connection
        )
        return found


def n_replicas(pool: SentinelConnectionPool) -> int:
    """Replicas of the pool's primary that a sentinel knows, those that are away among them.

    Raises:
        MasterNotFoundError: no sentinel answers and names a primary.
    """
    manager: Any = pool.sentinel_manager
    manager.discover_master(pool.service_name)  # puts the one that answers first
    return int(manager.sentinels[0].sentinel_master(pool.service_name)["num-slaves"])


def _place(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise ConfigError("redis_url", _FORM) from exc
    if not host or parts.path:
        raise ConfigError("redis_url", _FORM)
    return host, port or _PORT

"""The connection: a Redis client that raises this project's errors, and the Lua scripts.

Only reads are tried again, with backoff. A write that got no answer may or may not have taken
effect, and only its caller can find out.

Sentinels name a store's present primary, and elect a replica when it dies. Every new connection
asks them. One that is open stays with its server until that server ends it, so what it acknowledges
may be lost: `durability.check_failover` says what keeps charges then.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.client import Pipeline
from redis.commands.core import Script
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from qserver.errors import (
    ConfigError,
    StoreCorruptError,
    StoreError,
    StoreNotDurableError,
    StoreUnavailableError,
    StoreUnsupportedError,
)
from qserver.storage.server.state_folder import StateFolder

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_PORT = 26379
_FORM = "name the sentinels and their primary, as redis+sentinel://host:26379,host:26379/NAME"
_OLDEST_REDIS = (7, 2)
_OLDEST_VALKEY = (8, 0)
_SCHEMES = ("unix", "redis", "rediss", *SENTINEL_SCHEMES)
# An address may name a place, a user and, for TLS, certificates. Any other option would overrule
# the promises of this module, since a query string wins over keyword arguments.
_URL_OPTIONS = frozenset(
    {"db", "username", "password"} | {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"}
)
_ADVICE = (
    "A charge is one step on several keys, which a cluster cannot take. For another primary when "
    "one dies, name sentinels: redis+sentinel://host:26379,host:26379/NAME"
)
_READS = frozenset(
    {"TIME", "INFO", "ROLE", "CONFIG GET", "SCRIPT EXISTS", "EVAL_RO", "EVALSHA_RO"}
    | {"DBSIZE", "SCAN", "EXISTS", "TYPE", "TTL", "PTTL", "GET", "MGET", "STRLEN"}
    | {"HGET", "HMGET", "HGETALL", "HLEN", "HKEYS", "HVALS", "HEXISTS", "HSCAN"}
    | {"LRANGE", "LLEN", "LINDEX", "SMEMBERS", "SISMEMBER", "SMISMEMBER", "SCARD", "SSCAN"}
    | {"ZRANGE", "ZCARD", "ZSCORE", "ZCOUNT", "ZRANGEBYSCORE", "ZREVRANGE", "ZSCAN"}
    | {"XRANGE", "XREVRANGE", "XLEN", "XREAD", "XPENDING"}
    | {"XINFO STREAM", "XINFO GROUPS", "XINFO CONSUMERS"}
)


class StoreClient(redis.Redis):
    """A Redis client that raises this project's errors and repeats reads only. Made by `connect`.

    Attributes:
        where: the server's address without credentials, for messages.
        n_reconnects: how often a single-connection client has reconnected.
        n_reconnects_at_write: `n_reconnects` at its last successful command that is not a read.
    """

    where = "an unknown address"
    n_reconnects = 0
    n_reconnects_at_write = 0
    _read_retry = Retry(
        ExponentialWithJitterBackoff(cap=0.3, base=0.02),
        3,
        supported_errors=(redis.ConnectionError,),
    )

    @property
    def is_single_connection(self) -> bool:
        """Whether one connection carries every command."""
        return self.connection is not None

    def n_replicas(self) -> int | None:
        """Replicas that sentinels know and may elect; None for a server without sentinels."""
        pool = self.connection_pool
        if not isinstance(pool, SentinelConnectionPool):
            return None
        with translated_errors(self.where):
            return n_replicas(pool)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """The reply to one command; StoreError when the server cannot or will not serve."""
        send: Callable[..., Any] = super().execute_command
        with translated_errors(self.where):
            if args[0] in _READS:
                return self._read_retry.call_with_retry(
                    lambda: send(*args, **options), lambda _error: None
                )
            reply = send(*args, **options)
        self.n_reconnects_at_write = self.n_reconnects
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> StorePipeline:  # noqa: FBT001, FBT002
        """A pipeline; a single-connection client has none.

        redis-py would send it over another connection, and a following wait for durability on this
        one would not cover it.
        """
        if self.is_single_connection:
            raise StoreError("A single-connection client must not use pipelines. Use a script.")
        made = StorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        made.where = self.where
        return made

    def _count_reconnect(self, _connection: object) -> None:
        self.n_reconnects += 1


class StorePipeline(Pipeline):
    """A pipeline that raises this project's errors; it is never repeated."""

    where = StoreClient.where

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002
        """Replies in order; StoreError when the server cannot or will not serve."""
        with translated_errors(self.where):
            replies: list[Any] = super().execute(raise_on_error)
        return replies


def connect(
    url: str, *, role: str, timeout_s: float = 5.0, single_connection: bool = False
) -> StoreClient:
    """A client of the server at `url`; text in, text out.

    Args:
        url: `unix:///path`, `redis://[user:password@]host[:port][/db]`, or `rediss://` for TLS;
            `redis+sentinel://[user:password@]host[:port],.../NAME[/db]`, or `rediss+sentinel://`,
            for the primary that sentinels name; or `state:///path` for the embedded server that
            runs on that state folder.
        role: who connects, shown by CLIENT LIST: lower-case letters and dashes.
        timeout_s: limit for connecting and for each reply, in seconds. A blocking command must
            ask for less.
        single_connection: connect now and send everything over that connection, as
            `durability.await_durable` needs. Not for several threads, nor across a fork.

    Raises:
        ConfigError: the URL or the role is malformed.
        StoreUnavailableError: `single_connection`, and the server cannot be reached; or none runs
            on the state folder.
    """
    url = _resolved(url)
    _check_url(url)
    if not re.fullmatch("[a-z-]+", role):
        raise ConfigError("role", "be lower-case letters and dashes", role)
    where = public_address(url)
    with translated_errors(where):
        client = _made(url, role, timeout_s, single_connection=single_connection)
    client.where = where
    # In a circle of garbage the socket may come before the client that would close it.
    weakref.finalize(client, client.connection_pool.disconnect).atexit = False
    if client.connection is not None:
        connection: Any = client.connection  # its methods have no types
        connection.register_connect_callback(client._count_reconnect)
    return client


def _made(url: str, role: str, timeout_s: float, *, single_connection: bool) -> StoreClient:
    options: dict[str, Any] = {
        "decode_responses": True,
        "protocol": 2,
        "client_name": f"qserver-{role}",
        "health_check_interval": 30,
        "retry": Retry(NoBackoff(), 0),
    }
    if urlsplit(url).scheme in SENTINEL_SCHEMES:
        pool = SentinelAddress.read(url).pool(timeout_s=timeout_s, **options)
        client = StoreClient(connection_pool=pool, single_connection_client=single_connection)
        client.auto_close_connection_pool = True
        return client
    made = StoreClient.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        single_connection_client=single_connection,
        **options,
    )
    return cast("StoreClient", made)


def public_address(url: str) -> str:
    """`url` without user, password or options, fit for messages and logs."""
    parts = urlsplit(url)
    if parts.scheme == "state":
        return f"the store of {unquote(parts.path)}"
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    if parts.scheme in SENTINEL_SCHEMES:
        return str(SentinelAddress.read(url))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "localhost"
    return f"{parts.scheme}://{host}:{parts.port or 6379}{parts.path.rstrip('/')}"


def check_server(client: redis.Redis) -> None:
    """Check that qserver can use the server: Redis 7.2+ or Valkey 8+, no cluster.

    Raises:
        StoreUnsupportedError: it is older, or speaks for a cluster or as a sentinel.
        StoreUnavailableError: it does not answer.
    """
    info: Mapping[str, Any] = client.info("server")
    is_valkey = "valkey_version" in info
    name = "Valkey" if is_valkey else "Redis"
    version = str(info.get("valkey_version" if is_valkey else "redis_version", "0"))
    oldest = _OLDEST_VALKEY if is_valkey else _OLDEST_REDIS
    if _version_pair(version) < oldest:
        raise StoreUnsupportedError(
            f"The server must be Redis 7.2 or later, or Valkey 8 or later, got {name} {version}."
        )
    mode = str(info.get("server_mode", info.get("redis_mode", "standalone")))
    if mode != "standalone":
        raise StoreUnsupportedError(
            f"The server must run in standalone mode, got {mode}. {_ADVICE}"
        )


class Scripts:
    """The Lua scripts of the storage room, each called by its file's name.

    Args:
        client: the client that runs them.
        folder: the folder of the `*.lua` files; `qserver/storage/scripts` by default.

    Raises:
        StoreError: the folder has no script, so the installation is incomplete.
    """

    def __init__(self, client: redis.Redis, *, folder: Traversable | None = None) -> None:
        self._scripts: dict[str, Script] = {
            name: client.register_script(text) for name, text in read_scripts(folder).items()
        }

    def run(self, name: str, *, keys: Sequence[str], args: Sequence[str | int | bytes]) -> Any:
        """The script's reply. A server that lost the script gets it again.

        Raises:
            KeyError: there is no such script.
            StoreError: the server cannot or will not serve. The script may have run.
        """
        return self._scripts[name](keys=list(keys), args=list(args))


def read_scripts(folder: Traversable | None = None) -> Mapping[str, str]:
    """Name -> text of every `*.lua` file in `folder`, or in `qserver/storage/scripts`.

    A function of its folder `shared` stands before the scripts that call it: Lua in the server
    cannot import.
    """
    return _packaged_scripts() if folder is None else _scripts_in(folder)


@cache
def _packaged_scripts() -> Mapping[str, str]:
    return _scripts_in(importlib.resources.files("qserver.storage").joinpath("scripts"))


def _scripts_in(place: Traversable) -> dict[str, str]:
    texts, shared = _lua_files(place), _lua_files(place.joinpath("shared"))
    if not texts:
        raise StoreError("qserver was installed without its Lua scripts. Install it again.")
    for name, text in texts.items():
        called = [function for key, function in shared.items() if f"{key}(" in text]
        texts[name] = "".join([*called, text])
    return texts


def _lua_files(place: Traversable) -> dict[str, str]:
    """Name -> text of the `*.lua` files in a folder; empty without the folder."""
    files = place.iterdir() if place.is_dir() else iter(())
    return {
        item.name.removesuffix(".lua"): item.read_text(encoding="utf-8")
        for item in files
        if item.name.endswith(".lua")
    }


@contextlib.contextmanager
def translated_errors(where: str) -> Iterator[None]:
    """Turn redis-py's errors into this project's, except replies to a caller's mistake."""
    try:
        yield
    except UnicodeDecodeError as exc:
        # Everything that qserver writes is UTF-8. The client has dropped the connection.
        raise StoreCorruptError(f"Redis at {where} holds a text that is no UTF-8.") from exc
    except redis.RedisError as exc:
        ours = _translate(exc, where)
        if ours is None:
            raise
        raise ours from exc


class ForbiddenError(StoreError):
    """The store's own user may not do this."""


def _translate(error: redis.RedisError, where: str) -> StoreError | None:
    text = str(error).rstrip(".")
    if isinstance(error, redis.AuthenticationError):
        return StoreUnavailableError(f"Redis at {where} refused the credentials.")
    if isinstance(error, MasterNotFoundError):
        return StoreUnavailableError(
            f"No sentinel of {where} answers and names a primary that is up under that name."
        )
    if isinstance(error, redis.ConnectionError):
        return StoreUnavailableError(f"Redis at {where} cannot be used now: {text}.")
    if isinstance(error, redis.TimeoutError):
        return StoreUnavailableError(f"Redis at {where} did not answer in time.")
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return StoreUnavailableError(f"Redis at {where} is out of memory. Raise maxmemory.")
    if isinstance(error, redis.exceptions.ReadOnlyError):
        return StoreNotDurableError(f"Redis at {where} is a replica. Connect to the primary.")
    if isinstance(error, redis.exceptions.NoPermissionError):
        return ForbiddenError(f"Redis at {where} does not let this user do that: {text}.")
    return _translate_reply(text, where) if isinstance(error, redis.ResponseError) else None


def _translate_reply(text: str, where: str) -> StoreError | None:
    """The error for a reply without a class in redis-py, by its first word."""
    # A pipeline tells first which of its commands failed.
    match text.rpartition(" caused error: ")[2].partition(" ")[0]:
        case "MISCONF":
            return StoreNotDurableError(f"Redis at {where} cannot write to its disk.")
        case "NOREPLICAS":
            return StoreNotDurableError(f"Redis at {where} has too few replicas.")
        case "WRONGTYPE":
            return StoreCorruptError(f"Redis at {where} holds another kind of value than written.")
        # A script runs too long; a replica lost its primary; a primary became a replica.
        case "BUSY" | "MASTERDOWN" | "UNBLOCKED":
            return StoreUnavailableError(f"Redis at {where} cannot serve now.")
    return None


def _resolved(url: str) -> str:
    """`url`, or for a state folder the address of its server, which changes at each start."""
    parts = urlsplit(url)
    return StateFolder(Path(unquote(parts.path))).require_url() if parts.scheme == "state" else url


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    form = "be a unix://, redis://, rediss://, redis+sentinel:// or rediss+sentinel:// address"
    if parts.scheme not in _SCHEMES:
        raise ConfigError("redis_url", form)
    is_sentinel = parts.scheme in SENTINEL_SCHEMES
    if is_sentinel:
        SentinelAddress.read(url)
    if parts.scheme == "unix" and not parts.path.startswith("/"):
        raise ConfigError("redis_url", "name the socket by its full path, as unix:///path")
    try:
        _ = is_sentinel or parts.port
    except ValueError as exc:
        raise ConfigError("redis_url", "hold a port from 0 to 65535") from exc
    known = _URL_OPTIONS | SENTINEL_OPTIONS if is_sentinel else _URL_OPTIONS
    if set(parse_qs(parts.query, keep_blank_values=True)) - known:
        raise ConfigError("redis_url", f"use no option but {', '.join(sorted(known))}")


def _version_pair(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@dataclass(frozen=True, kw_only=True)
class SentinelAddress:
    """Where the sentinels of a store are, and their name for it.

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
        """A pool that connects each time to the primary that a sentinel names then.

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
    """Replicas of the pool's primary that a sentinel knows, absent ones included.

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

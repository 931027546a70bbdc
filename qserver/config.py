"""Settings; the only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from qserver.errors import ConfigError

LOOPBACK = "127.0.0.1"
LOOPBACKS = (LOOPBACK, "::1")
_PREFIX = "QSERVER_"


@dataclass(frozen=True)
class Settings:
    """How a process of qserver runs; each field is read from QSERVER_<NAME>.

    Args:
        redis_url: unix://, redis://, rediss:// (TLS) or redis+sentinel:// address of the store; ''
            is the embedded store of `state_dir`.
        state_dir: folder of the embedded store and of the worker's private files.
        host, port: where HTTP listens. `::` is every address of IPv6 and, where the system does
            not keep the two apart, of IPv4; brackets around an address of IPv6 may be there.
        open_access: no accounts: whoever is on this machine may ask, spend and read everything.
            Loopback only.
        token_rate, address_rate: requests a second that one token and one address may send, with
            bursts of four seconds' worth; 0 = without a bound. An open server counts none.
        oidc_issuer: address of the OpenID Connect provider whose tokens are taken beside ours; ''
            for none.
        oidc_client_id, oidc_client_secret: of the web pages at the provider; '' where the client
            has no secret.
        oidc_audience: for whom tokens of programs must be made, beside `oidc_client_id`.
        oidc_account_claim: the claim that names a person; one that people cannot change.
        oidc_groups_claim: the claim with a person's groups.
        n_proxies: proxies in front of HTTP that add to X-Forwarded-For; the address is taken there.
        portal: serve the web pages beside the JSON.
        http_workers, http_threads: gunicorn's processes, and threads in each.
        wait_s: how long a question waits for its answer before it becomes a job, in seconds.
        max_body_bytes: size limit of a request's body.
        max_queue: questions about one dataset that may wait for a worker.
        slot_ms: counting and sampling together take a whole multiple of this many milliseconds,
            so that an answer's time tells nothing about the data. Longer than a scan takes.
        witness: folder on another disk or host in which the worker notes how long its journals
            were, so that an older copy of the state folder is noticed; '' for none.
        witness_need: `required` draws nothing while the witness is away; with `wished` the worker
            goes on.
        lease_ms: how long a worker may hold a population without renewing.
        replicas: replicas that must hold a charge before a draw, and an answer before it is shown.
        durable_timeout_ms: how long a write may take to become durable.
        allow_volatile: spend on a store that forgets when it ends. For toys only.
        postgres_connections: connections of PostgreSQL's clients at a time.
        postgres_certificate, postgres_key: PEM files with which TLS is offered to them; '' for no
            TLS.
        metrics_dir: folder in which the HTTP processes count requests, '' for nowhere; emptied when
            HTTP starts.
        metrics_host, metrics_port: where `qserver metrics` listens. It asks for no token: elsewhere
            than on this machine let Prometheus alone reach it.
        log_format: `text`, or `json` for one JSON object a line.
        log_requests: a line per request, without questions and clients. It tells who reads the log
            how often and when questions come.
        max_rows: measurements that take part in one inference.
    """

    redis_url: str = ""
    state_dir: Path = Path("qserver-state")
    host: str = "127.0.0.1"
    port: int = 8000
    open_access: bool = False
    token_rate: int = 100
    address_rate: int = 200
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_audience: str = ""
    oidc_account_claim: str = "sub"
    oidc_groups_claim: str = "groups"
    n_proxies: int = 0
    portal: bool = True
    http_workers: int = 2
    http_threads: int = 8
    wait_s: float = 10.0
    max_body_bytes: int = 1 << 20
    max_queue: int = 1000
    slot_ms: int = 5
    witness: str = ""
    witness_need: str = "required"
    lease_ms: int = 10_000
    replicas: int = 0
    durable_timeout_ms: int = 2000
    allow_volatile: bool = False
    postgres_connections: int = 64
    postgres_certificate: str = ""
    postgres_key: str = ""
    metrics_dir: str = ""
    metrics_host: str = LOOPBACK
    metrics_port: int = 9464
    log_format: str = "text"
    log_requests: bool = False
    max_rows: int = 20_000

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(name, f"be from {least:,} to {most:,}", value)
        for name in ("host", "metrics_host"):
            object.__setattr__(self, name, _without_brackets(getattr(self, name)))
        if self.open_access and self.host not in LOOPBACKS:
            raise ConfigError(
                "host",
                f"be {LOOPBACK} or ::1 where access is open",
                self.host,
                hint="Without accounts whoever reaches the port can spend the budget.",
            )
        self._check_sign_on()
        if bool(self.postgres_certificate) != bool(self.postgres_key):
            raise ConfigError("postgres_key", "be given with postgres_certificate, or neither be")
        if self.log_format not in ("text", "json"):
            raise ConfigError("log_format", "be text or json", self.log_format)
        if self.witness_need not in ("required", "wished"):
            raise ConfigError("witness_need", "be required or wished", self.witness_need)

    def _check_sign_on(self) -> None:
        if not self.oidc_issuer:
            if self.oidc_client_id or self.oidc_client_secret or self.oidc_audience:
                raise ConfigError("oidc_issuer", "be given with the other oidc_ settings")
            return
        parts = urlsplit(self.oidc_issuer)
        is_here = parts.scheme == "http" and parts.hostname in (*LOOPBACKS, "localhost")
        is_plain = bool(parts.hostname) and not (parts.query or parts.fragment or parts.username)
        if not (parts.scheme == "https" or is_here) or not is_plain:
            raise ConfigError("oidc_issuer", "be the provider's https:// address")
        for name in ("oidc_client_id", "oidc_account_claim", "oidc_groups_claim"):
            if not getattr(self, name):
                raise ConfigError(name, "be given with oidc_issuer")

    def check_installed(self) -> None:
        """Return if single sign-on is off, or its libraries are there; ConfigError."""
        if self.oidc_issuer and not all(map(find_spec, ("authlib", "joserfc", "requests"))):
            raise ConfigError(
                "oidc_issuer", "be given where this is installed: pip install 'qserver[sso]'"
            )

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, **overrides: Any
    ) -> Settings:
        """Settings from the environment; `overrides` that are not None win.

        Raises:
            ConfigError: a value cannot be read or is out of range; names the variable.
        """
        source = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for item in fields(cls):
            text = source.get(_PREFIX + item.name.upper())
            if text is not None:
                values[item.name] = _read(item.name, text, str(item.type))
        values.update({k: v for k, v in overrides.items() if v is not None})
        return cls(**values)

    @property
    def store_url(self) -> str:
        """`redis_url`, or the address of the embedded store that runs on `state_dir`."""
        return self.redis_url or f"state://{quote(str(self.state_dir.absolute()))}"

    def to_environment(self) -> dict[str, str]:
        """The variables that make another process read the same settings."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            _PREFIX + name.upper(): str(int(v) if isinstance(v, bool) else v)
            for name, v in values.items()
        }


def url_of(host: str, port: int) -> str:
    """The URL of a server that listens there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _without_brackets(host: str) -> str:
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("port", 1, 65535),
    ("token_rate", 0, 1_000_000),
    ("address_rate", 0, 1_000_000),
    ("n_proxies", 0, 16),
    ("http_workers", 1, 64),
    ("http_threads", 1, 256),
    ("wait_s", 0, 300),
    ("max_body_bytes", 1024, 1 << 28),
    ("max_queue", 1, 1_000_000),
    ("slot_ms", 0, 60_000),
    ("lease_ms", 1000, 600_000),
    ("replicas", 0, 16),
    ("durable_timeout_ms", 1, 60_000),
    ("postgres_connections", 1, 1000),
    ("metrics_port", 1, 65535),
    ("max_rows", 1, 20_000),
)

_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "Path": Path,
    "int": int,
    "float": float,
}


def _read(name: str, text: str, kind: str) -> Any:
    variable = _PREFIX + name.upper()
    if kind == "bool":
        if text.lower() not in ("0", "1", "true", "false", "yes", "no"):
            raise ConfigError(variable, "be 0 or 1", text)
        return text.lower() in ("1", "true", "yes")
    try:
        return _READERS[kind](text)
    except ValueError as exc:
        raise ConfigError(variable, f"be a number of type {kind}", text) from exc

"""The way to a server: the proxy that the environment names for it, and the trusted authorities.

The variables are read as most programs read them. `HTTP_PROXY` and `HTTPS_PROXY` apply by the
scheme of the server's URL; `NO_PROXY` names the hosts to reach without a proxy. Names in small
letters win. `HTTP_PROXY` in capitals is ignored if `REQUEST_METHOD` is set: a client of CGI could
have written it. This machine itself is never reached through a proxy of the environment.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from qserver.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8000"
_PORTS = {"http": 80, "https": 443}


def default_url(environ: Mapping[str, str]) -> str:
    """QSERVER_URL, or the address of a local demo."""
    return environ.get("QSERVER_URL") or DEFAULT_URL


def proxy_for(url: str, environ: Mapping[str, str]) -> str:
    """The proxy's URL for a server at `url`, or '' for none.

    Raises:
        ConfigError: the variable that applies does not hold the URL of a proxy.
    """
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name, "")
    if name not in environ and not (name == "http_proxy" and "REQUEST_METHOD" in environ):
        proxy = environ.get(name.upper(), "")
    host = parts.hostname or ""
    no_proxy = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    if not proxy or _is_this_machine(host) or _is_excepted(parts, no_proxy):
        return ""
    return checked_proxy(proxy, name.upper())


def checked_proxy(proxy: str, name: str) -> str:
    """A proxy's URL, with http as its default scheme. It is never shown: it may hold a password.

    Raises:
        ConfigError: it is not the URL of a proxy.
    """
    url = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in _PORTS and parts.hostname and parts.port != 0
    except ValueError:
        well_formed = False
    if not well_formed:
        raise ConfigError(name, "be http://[USER:PASSWORD@]HOST:PORT, or https")
    return url


def tls_context(ca: str | Path | None) -> ssl.SSLContext:
    """A context that checks the server's certificate and name.

    Args:
        ca: file or folder of the authorities to trust, in PEM; None for those of SSL_CERT_FILE and
            SSL_CERT_DIR, or the system's if these are not set.

    Raises:
        ConfigError: there are no certificates at `ca`.
    """
    if ca is None:
        return ssl.create_default_context()  # OpenSSL itself reads the two variables
    path = Path(ca)
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=str(path))
        return ssl.create_default_context(cafile=str(path))
    except OSError as exc:
        raise ConfigError("ca", "be a file or folder of certificates in PEM", str(path)) from exc


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _is_excepted(parts: SplitResult, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host.

    An entry is `*`, a name (which includes its subdomains), an address, or a network such as
    10.0.0.0/8. A name or an address may have a port; then only that port is meant.
    """
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    entries = (text.strip().lower() for text in no_proxy.split(","))
    return any(_names(entry, host, port) for entry in entries if entry)


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if address is not None:
        return _holds(entry, address, port)
    name, _, wanted = entry.partition(":")
    name = name.lstrip("*").strip(".")
    is_same = bool(name) and (host == name or host.endswith(f".{name}"))
    return is_same and wanted in ("", str(port))


def _holds(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> bool:
    """Whether the entry is this address, with or without a port, or a network that contains it."""
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        parts = urlsplit(f"//{entry}")
    try:
        return _address(parts.hostname or "") == address and parts.port == port
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None

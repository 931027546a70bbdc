"""qserver: answers linear counting queries over private data with credible intervals.

The online side. It plans, infers and serves; it never opens private data and draws no noise.
`qserver.Client` and `qserver.AsyncClient` ask a server from Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qserver.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The clients, imported when first asked for: the server and the worker need none."""
    if name in ("AsyncClient", "Client"):
        return getattr(import_module("qserver.client"), name)
    raise AttributeError(name)

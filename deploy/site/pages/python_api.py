"""python-api.md: every public class of the client; the site fills in their docstrings."""

from __future__ import annotations

from qserver import client

_HEAD = """\
# Python: every class and method

Made from the docstrings when the site is built. [Python](python.md) has examples.
"""
_FIRST = ("Client", "AsyncClient")
_OF_THE_DRIVER = ("dbapi.connect", "dbapi.Cursor")
_OF_CLIENTS = ("clients.Models", "clients.ModelPrices")


def python_api() -> str:
    """The page, as Markdown of mkdocstrings."""
    others = (name for name in client.__all__ if name not in _FIRST)
    names = [*_FIRST, *_OF_CLIENTS, *others, *_OF_THE_DRIVER]
    return "\n".join([_HEAD, *(f"::: qserver.client.{name}\n" for name in names)])

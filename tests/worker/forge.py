"""Write to a store as somebody does who knows its seals: they are no keys."""

from __future__ import annotations

from typing import Any

from qserver.records.digest_links import digest_of
from qserver.storage.encoding.digests import sealed_fields
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient


def forge_ledger(client: StoreClient, fields: dict[str, str], *, population: str = "town") -> int:
    """Give these fields of the ledger other values, with their seals."""
    return int(client.hset(Keys(population).ledger, mapping=sealed_fields(fields)))  # type: ignore[arg-type]


def forge_end_of_charges(client: StoreClient, *, population: str = "town") -> None:
    """Let the ledger name the charge that is the last one now."""
    last: Any = client.lindex(Keys(population).charges, -1)
    forge_ledger(client, {"charges": digest_of(last)}, population=population)

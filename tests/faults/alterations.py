"""Alter a store key by key, as a client of it could by mistake: its files have no digests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from qserver.storage.server.connection import StoreClient

How = Literal["a byte", "gone"]
_MARK = "this entry goes"


@dataclass(frozen=True)
class Alteration:
    """One change: a byte in the middle of a text, or a field, an entry or a whole key that goes.

    Args:
        place: field of a hash or index of a list; None for the whole key.
    """

    key: str
    kind: str
    place: str | int | None
    how: How

    @property
    def part(self) -> str:
        """The kind of key, without names: `qs:audit`, `ledger`, `job`."""
        _, brace, rest = self.key.partition("}:")
        return rest.split(":")[0] if brace else self.key

    def make(self, client: Any) -> None:
        """Change the store."""
        if self.place is None:
            client.delete(self.key)
        elif self.kind == "hash" and self.how == "gone":
            client.hdel(self.key, self.place)
        elif self.kind == "hash":
            client.hset(self.key, self.place, _other(client.hget(self.key, self.place)))
        elif self.how == "gone":
            client.lset(self.key, self.place, _MARK)
            client.lrem(self.key, 1, _MARK)
        else:
            client.lset(self.key, self.place, _other(client.lindex(self.key, self.place)))


def alterations(client: StoreClient) -> Iterator[Alteration]:
    """Alterations of each kind of key; of a list those of both its ends, of jobs those of one."""
    found: Any = client
    n_jobs = 0
    for key in sorted(found.keys()):
        kind = str(found.type(key))
        n_jobs += ":job:" in key
        if n_jobs > 1 and ":job:" in key:
            continue
        yield Alteration(key, kind, None, "gone")
        places: list[Any] = []
        if kind == "hash":
            places = [field for field in sorted(found.hkeys(key)) if found.hget(key, field)]
        elif kind == "list":
            places = sorted({0, found.llen(key) - 1})
        for place in places:
            yield Alteration(key, kind, place, "a byte")
            yield Alteration(key, kind, place, "gone")


@dataclass(frozen=True)
class Dump:
    """All that a store has, to put it back."""

    keys: dict[str, Any]

    @classmethod
    def of(cls, client: StoreClient) -> Dump:
        """What the store has now."""
        found: Any = client
        keys = found.keys()
        return cls({k: found.execute_command("DUMP", k, NEVER_DECODE=True) for k in keys})

    def put_back(self, client: StoreClient) -> None:
        """Let the store have just this."""
        client.flushall()
        for key, text in self.keys.items():
            client.execute_command("RESTORE", key, 0, text)


def _other(text: str) -> str:
    middle = len(text) // 2
    return text[:middle] + chr(ord(text[middle]) ^ 1) + text[middle + 1 :]

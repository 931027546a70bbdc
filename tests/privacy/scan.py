"""Look for secrets in all that left the worker's memory but its private folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.storage.server.connection import StoreClient

LEAST_DIGITS = 14
"""Shorter numbers would turn up among lattice indices by chance: 500 numbers of so many digits
in 5 MB of digits with a chance of 3e-5 in all, once, as the noise of the run is seeded."""


@dataclass(frozen=True)
class Secret:
    """Something that must not be found, and how it would look."""

    name: str
    looks: re.Pattern[bytes]


def text_secret(name: str, text: str) -> Secret:
    """A text that must not occur anywhere."""
    return Secret(name, re.compile(re.escape(text.encode())))


def count_secret(name: str, count: int) -> Secret:
    """A count of records; as a number of its own, since its few digits occur in longer ones.

    Nor inside a word: a random id of 16 hexadecimal digits has a given run of five digits between
    letters once in some hundred thousand, and a store has many ids. Nor with decimals: a noisy
    answer has given whole digits once in some hundred.
    """
    alone = rb"(?<![0-9A-Za-z.])%d(?![0-9A-Za-z])(?!\.[0-9]*[1-9])" % count
    return Secret(name, re.compile(alone))


def noted_secrets(notes: Iterable[Mapping[str, Any]]) -> list[Secret]:
    """Truths and noise on the lattice and in records, decimal and hexadecimal, from a recording.

    Of a secret sample also what was drawn of it, which nobody may see.

    What was released is public; so is the noise of an empty cell, which is its answer.
    """
    notes = list(notes)
    public = {abs(n["released"]) for n in notes if "released" in n}
    integers: set[int] = set()
    found: dict[str, str] = {}
    for note in notes:
        integers |= {
            abs(note[k]) for k in ("true_index", "noise_index", "part", "kept") if k in note
        }
        if note.get("truth"):
            found[repr(abs(note["noise"]))] = "noise in records"
    for number in integers - public:
        if number >= 10 ** (LEAST_DIGITS - 1):
            found[str(number)] = "on the lattice"
            found[f"{number:x}"] = "on the lattice, hexadecimal"
    return [text_secret(f"{what}: {text}", text) for text, what in found.items()]


def exposures(secrets: Iterable[Secret], places: Mapping[str, bytes]) -> list[str]:
    """Where which secrets are found."""
    return [
        f"{secret.name} in {place}"
        for secret in secrets
        for place, content in places.items()
        if secret.looks.search(content)
    ]


def keys_and_values(client: StoreClient) -> dict[str, bytes]:
    """Every key of the store with its value, by key; refuses a type that it cannot read."""
    readers: dict[str, Any] = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "set": client.smembers,
        "stream": client.xrange,
    }
    keys: Any = client.keys("*")
    return {f"key {key}": f"{key} {readers[str(client.type(key))](key)}".encode() for key in keys}


def files_under(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder, by name."""
    return {f"file {p.name}": p.read_bytes() for p in folder.rglob("*") if p.is_file()}

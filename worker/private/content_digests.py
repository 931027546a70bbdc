"""Keyed digests that tell whether two private files hold the same data or the same people.

They are private, as everything that is computed from the data: they stay in the worker's folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document

if TYPE_CHECKING:
    from worker.private.people import People

_WORDS = {
    "records": "the same records",
    "people": "the same people in the column of persons",
    "file": "the same file",
}
_CHUNK = 1 << 20


@dataclass(frozen=True, repr=False)
class Content:
    """Keyed digests of a private file's content; '' where nothing can be compared.

    Args:
        records: of the coded records in sorted order, so the order of the file does not matter,
            and of the domain. Records are taken before any of a person is left out.
        people: of the set of persons, if a column names them.
        file: of the bytes of the file, so that another domain hides nothing.
    """

    records: str = ""
    people: str = ""
    file: str = ""

    def shared_with(self, other: Content) -> list[str]:
        """The common content of both, in words; empty if none is known."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _WORDS}
        return [_WORDS[name] for name, (one, two) in pairs.items() if one and one == two]

    def details(self) -> dict[str, str]:
        """The digests by name, in the journal's form."""
        return {f"same_{name}": getattr(self, name) for name in _WORDS}

    @classmethod
    def of_details(cls, details: Mapping[str, str | int]) -> Content | None:
        """The digests that `details` wrote; None in a line of an earlier version."""
        if "same_records" not in details:
            return None
        return cls(**{name: str(details.get(f"same_{name}", "")) for name in _WORDS})


def content_of(
    file: Path | None,
    domain: Domain,
    sorted_codes: Callable[[int], Iterable[NDArray[Any]]],
    n: int,
    *,
    people: str,
    key: bytes,
) -> Content:
    """The digests of the records that were read.

    Args:
        file: the one file that holds it, if it is one.
        sorted_codes: gives, for an attribute, the codes of the records inside the domain, sorted
            with the last attribute first, in pieces.
        n: how many records they are.
        people: the digest of their persons; '' without a column.
        key: the worker's secret.

    Raises:
        PrivateDataError: the file cannot be read.
    """
    if not n:
        return Content()  # Nobody is counted, so nobody can lose anything.
    return Content(
        records=records_digest(domain, sorted_codes, key),
        people=people,
        file="" if file is None else _file_digest(file, key),
    )


def _digest(key: bytes, purpose: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(key=key, digest_size=32, person=b"qserver " + purpose)


def records_digest(
    domain: Domain, sorted_codes: Callable[[int], Iterable[NDArray[Any]]], key: bytes
) -> str:
    """The digest of sorted codes; arguments as `content_of`."""
    digest = _digest(key, b"records")
    digest.update(json.dumps(domain_to_document(domain), sort_keys=True).encode())
    for axis in range(len(domain.sizes)):
        for piece in sorted_codes(axis):
            digest.update(piece.astype("<i8").data)
    return digest.hexdigest()


def digest_of(people: People, key: bytes) -> str:
    """The digest of the persons with a record; '' if nobody is known."""
    return people_digest((name for name, _ in people.counts()), key)


def people_digest(names: Iterable[str], key: bytes) -> str:
    """The digest of persons, each once and in the order of their texts; '' if nobody is known."""
    digest, found = _digest(key, b"people"), False
    for name in names:
        if name:
            text, found = name.encode("utf-8", "surrogatepass"), True
            digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest() if found else ""


def _file_digest(path: Path, key: bytes) -> str:
    digest = _digest(key, b"file")
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as exc:
        raise PrivateDataError(f"{path.name} cannot be read.") from exc
    return digest.hexdigest()

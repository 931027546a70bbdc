"""Keyed digests that tell whether two private files hold the same data or the same people.

They are private, as everything that is computed from the data: they stay in the worker's folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document

_WORDS = {
    "records": "the same records",
    "people": "the same people in the column of persons",
    "file": "the same file",
}
_CHUNK = 1 << 20


@dataclass(frozen=True, repr=False)
class Content:
    """What a private file holds, as keyed digests; '' where there is nothing to compare.

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
        """What both hold, in words; empty if nothing is known to be the same."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _WORDS}
        return [_WORDS[name] for name, (one, two) in pairs.items() if one and one == two]

    def details(self) -> dict[str, str]:
        """The digests by name, as the journal keeps them."""
        return {f"same_{name}": getattr(self, name) for name in _WORDS}

    @classmethod
    def of_details(cls, details: Mapping[str, str | int]) -> Content | None:
        """The digests that `details` wrote; None in a line of an earlier version."""
        if "same_records" not in details:
            return None
        return cls(**{name: str(details.get(f"same_{name}", "")) for name in _WORDS})


def content_of(
    path: Path,
    domain: Domain,
    codes: Sequence[NDArray[np.int64]],
    *,
    people: NDArray[Any] | None,
    key: bytes,
) -> Content:
    """The digests of a file.

    Args:
        codes: per attribute, the code of each record inside the domain.
        people: the person of each of them, as text; '' is unknown. None without a column.
        key: the worker's secret.

    Raises:
        PrivateDataError: the file cannot be read.
    """
    if not len(codes[0]):
        return Content()  # Nobody is counted, so nobody can lose anything.
    names = None if people is None else np.unique(people).tolist()
    return Content(
        records=_records_digest(domain, codes, key),
        people=_people_digest([n for n in names or () if n], key),
        file=_file_digest(path, key),
    )


def _digest(key: bytes, purpose: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(key=key, digest_size=32, person=b"qserver " + purpose)


def _records_digest(domain: Domain, codes: Sequence[NDArray[np.int64]], key: bytes) -> str:
    digest = _digest(key, b"records")
    digest.update(json.dumps(domain_to_document(domain), sort_keys=True).encode())
    order = np.lexsort(codes)
    for column in codes:
        digest.update(np.ascontiguousarray(column[order], dtype="<i8").tobytes())
    return digest.hexdigest()


def _people_digest(names: Sequence[str], key: bytes) -> str:
    if not names:
        return ""
    digest = _digest(key, b"people")
    for name in names:
        text = str(name).encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.hexdigest()


def _file_digest(path: Path, key: bytes) -> str:
    digest = _digest(key, b"file")
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as exc:
        raise PrivateDataError(f"{path.name} cannot be read.") from exc
    return digest.hexdigest()

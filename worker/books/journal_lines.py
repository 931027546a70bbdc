"""The journal's lines with a check of their chain of digests, and the faults that books refuse.

Every line is canonical JSON of a body and of SHA-256 over the digest before and the body.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class BookFaultError(Exception):
    """The journal, or a plan, costs somebody more than it says; the text is for the owner."""


class UnknownFactsError(Exception):
    """The journal lacks what the books need: they neither confirm nor refuse."""


@dataclass(frozen=True)
class Line:
    """One record of the journal as plain values."""

    kind: str
    fields: dict[str, Any]


class JournalLines:
    """Reads the new lines of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._number = 0
        self._digest = bytes(32)
        self._file: tuple[int, int] | None = None

    def news(self) -> list[Line]:
        """The records of new whole lines, oldest first.

        Raises:
            BookFaultError: a line is damaged or out of place, or the file was replaced or cut.
        """
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            identity = (found.st_dev, found.st_ino)
            if found.st_size < self._offset or self._file not in (None, identity):
                raise BookFaultError("the journal was replaced or cut")
            self._file = identity
            file.seek(self._offset)
            *texts, torn = file.read().split(b"\n")
        # A torn last line may also hold blocks that were never written.
        if texts and not torn and b"\0" in texts[-1]:
            texts.pop()
        return [line for text in texts for line in self._take(text)]

    def _take(self, text: bytes) -> list[Line]:
        try:
            body = json.loads(text)["body"]
            canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
            digest = hashlib.sha256(self._digest + canonical).digest()
            sound = text == b'{"body":%b,"digest":"%b"}' % (canonical, digest.hex().encode())
            members = body["fields"]["records"] if body["kind"] == "group" else [body]
            lines = [Line(str(one["kind"]), dict(one["fields"])) for one in members]
        except (ValueError, TypeError, KeyError, RecursionError) as exc:
            raise BookFaultError(f"line {self._number} of the journal is damaged") from exc
        if not sound or body["sequence"] != self._number:
            raise BookFaultError(f"line {self._number} of the journal is out of place")
        self._digest, self._number = digest, self._number + 1
        self._offset += len(text) + 1
        return lines

"""Messages of the client: their fields, each checked to be there."""

from __future__ import annotations

import struct

from qserver.postgres.wire.faults import violation


class Fields:
    """Reads the fields of one message in turn; whatever is short is a violation."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        found = self._body[self._at : self._at + n]
        if n < 0 or len(found) != n:
            raise violation("A message ends before its fields do.")
        self._at += n
        return found

    def number(self, n_bytes: int) -> int:
        """A signed number of 2 or 4 bytes."""
        form = "!h" if n_bytes == 2 else "!i"
        return int(struct.unpack(form, self.take(n_bytes))[0])

    def count(self) -> int:
        """How many follow: 0 to 65,535."""
        return self.number(2) & 0xFFFF

    def oid(self) -> int:
        """The number of a type."""
        return self.number(4) & 0xFFFFFFFF

    def text(self) -> str:
        """A text up to its zero."""
        stop = self._body.find(b"\0", self._at)
        if stop < 0:
            raise violation("A text has no end.")
        found = self.take(stop - self._at)
        self._at += 1
        try:
            return found.decode()
        except UnicodeDecodeError as exc:
            raise violation("A text is not UTF-8.") from exc

    def value(self) -> bytes | None:
        """A value with its length before it; None for NULL."""
        length = self.number(4)
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        """Return if nothing is left."""
        if self._at != len(self._body):
            raise violation("A message is longer than its fields.")

"""How values are shown in the text of an error: short, and without control characters."""

from __future__ import annotations

import reprlib
from decimal import Decimal
from fractions import Fraction

_MAX_NAME = 120


class _Shortener(reprlib.Repr):
    """`repr` of what a stranger sent: bounded in depth, in items and in digits."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 3, 8, 8, 8
        self.maxstring = self.maxlong = self.maxother = 80

    def repr_int(self, x: int, level: int) -> str:
        """The digits of `x`, unless Python would refuse to write so many."""
        if x.bit_length() > 4096:
            return f"a whole number of {x.bit_length():,} bits"
        return super().repr_int(x, level)

    repr_long = repr_int

    def repr_instance(self, x: object, level: int) -> str:  # noqa: ARG002 - the base's signature
        """`repr(x)`, or its type alone where that fails."""
        try:
            # Decimals and fractions as a person writes them.
            text = str(x) if isinstance(x, Decimal | Fraction) else repr(x)
        except (ValueError, RecursionError):
            return f"a {type(x).__name__}"
        return text if len(text) <= self.maxother else text[: self.maxother - 3] + "..."


_SHORTENER = _Shortener()


def short_text(value: object) -> str:
    """`repr(value)` in 80 characters at most."""
    text = _SHORTENER.repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def printable(name: str) -> str:
    """`name` on one line, without characters that a log or an encoder would trip over."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name[:_MAX_NAME])
    return shown if len(name) <= _MAX_NAME else shown[: _MAX_NAME - 3] + "..."

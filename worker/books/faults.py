"""What the books refuse."""

from __future__ import annotations


class BookFaultError(Exception):
    """The journal, or a plan, costs somebody more than it says; the text is for the owner."""


class UnknownFactsError(Exception):
    """The journal lacks what the books need: they neither confirm nor refuse."""

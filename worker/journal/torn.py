"""Tell an append that a crash cut off from a last line that was changed.

What was cut off was never acknowledged, so it may go. A changed line may hold an answer that was
released, so it must not.
"""

from __future__ import annotations

import re

from qserver.errors import JournalError
from worker.journal.records import read_line

_ALONE = re.compile(rb"(?<!\0)\0(?!\0)")


def is_torn(text: bytes, *, sequence: int, previous: bytes) -> bool:
    """Whether the last line of a file is what a crash left of an append.

    That is a line without its newline, or one with blocks that were never written, which are read
    as zeros. A zero alone is no block.

    Args:
        text: the last line.
        sequence: its place among the lines.
        previous: digest of the line before.
    """
    if not text.endswith(b"\n"):
        return not _is_whole(text[:-1] + b"\n", sequence=sequence, previous=previous)
    return has_unwritten_block(text)


def has_unwritten_block(text: bytes) -> bool:
    """Whether a crash left a part of this line unwritten: zeros, and none of them alone."""
    return b"\0" in text and not _ALONE.search(text)


def _is_whole(text: bytes, *, sequence: int, previous: bytes) -> bool:
    """Whether this is the line that was written: its newline alone was changed."""
    try:
        read_line(text, sequence=sequence, previous=previous)
    except JournalError:
        return False
    return True

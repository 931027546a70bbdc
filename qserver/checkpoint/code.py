"""The version of the code whose states are kept: a digest of the files that decide what they mean.

So any change of code makes older checkpoints strangers, and nobody has to think of a number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import scipy

_ROOMS = (
    "answering",
    "checkpoint",
    "inference",
    "ledger",
    "planning",
    "query",
    "records",
    "storage/encoding",
)


@cache
def code_version() -> str:
    """The digest."""
    found = hashlib.sha256(f"numpy {np.__version__} scipy {scipy.__version__}".encode())
    root = Path(__file__).parents[1]
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:32]

"""How wide a code is in memory and on disk."""

from __future__ import annotations

import numpy as np


def code_dtype(size: int) -> type[np.uint8] | type[np.uint16] | type[np.uint32]:
    """The smallest unsigned type that holds the codes of `size` values."""
    if size <= 1 << 8:
        return np.uint8
    return np.uint16 if size <= 1 << 16 else np.uint32

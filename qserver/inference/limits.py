"""Limits of inference: corners, rows and values that are taken in."""

from __future__ import annotations

from typing import Final

MOST_CORNERS: Final = 1 << 12
"""A row with more corners is one corner by itself: it only combines with measurements of itself."""

MAX_ROWS: Final = 20_000
"""Most rows of a history that are combined."""

MOST_FOR_DIRECTIONS: Final = 200
"""With more rows in reach of a question, only the weights of least variance are tried."""

MOST_MERGED: Final = MOST_FOR_DIRECTIONS
"""Most rows and cells whose disagreements are all found; of more, those are that weigh most."""

MOST_FREE: Final = 100
"""Most independent errors that keep their law; beyond these the smallest become a normal one."""

MOST_IN_CHAIN: Final = 1 << 18
"""An attribute with more values has no default chain: building it would take seconds."""

MOST_NESTED: Final = 1 << 16
"""An attribute with more values keeps its regular chain."""

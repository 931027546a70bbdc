"""The state of a part of the server, as named arrays and a small head; checkpoints keep it.

Each room writes and reads its own states, so only it knows what the names mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.query.linear_query import LinearQuery

_BETWEEN = "/"


@dataclass(frozen=True, eq=False)
class State:
    """A part of the server's state.

    Args:
        head: plain JSON values.
        arrays: by name; read-only where they were read from a file.
    """

    head: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of_parts(cls, parts: Mapping[str, State], head: Mapping[str, Any] | None = None) -> State:
        """The state of a whole from its parts, with a head of its own."""
        arrays = {
            name + _BETWEEN + inner: array
            for name, part in parts.items()
            for inner, array in part.arrays.items()
        }
        return cls({**(head or {}), **{name: part.head for name, part in parts.items()}}, arrays)

    def part(self, name: str) -> State:
        """A part given to `of_parts`."""
        start = name + _BETWEEN
        arrays = {n[len(start) :]: a for n, a in self.arrays.items() if n.startswith(start)}
        return State(self.head[name], arrays)


def bytes_of_rows(rows: Iterable[LinearQuery]) -> NDArray[np.uint8]:
    """Rows as one array: a line of JSON each."""
    text = "\n".join(json.dumps(row.to_document()) for row in rows)
    return np.frombuffer(text.encode(), dtype=np.uint8)


def rows_of_bytes(array: NDArray[np.uint8], sizes: Sequence[int]) -> list[LinearQuery]:
    """The rows in the array of `bytes_of_rows`, each parsed on first use."""
    lines = array.tobytes().decode().split("\n") if len(array) else []
    return [LinearQuery.later(sizes, json.loads(line)) for line in lines]

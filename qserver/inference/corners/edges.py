"""The numbers of a tree's edges, in the order of their arrival, from 1.

A process that goes on from a checkpoint has the saved edges as a sorted array, which takes a tenth
of the memory of a dictionary, and which processes share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count

import numpy as np

from qserver.records.state import State


class Edges:
    """Numbers of edges.

    Args:
        saved: from `state`, for reading only.
    """

    def __init__(self, saved: State | None = None) -> None:
        nothing = np.zeros(0, dtype=np.int64)
        self._sorted = nothing if saved is None else saved.arrays["edges"]
        self._numbers = nothing if saved is None else saved.arrays["numbers"]
        first = len(self._sorted) + 1
        self._later: defaultdict[int, int] = defaultdict(count(first).__next__)

    def __len__(self) -> int:
        return len(self._sorted) + len(self._later)

    def state(self) -> State:
        """What makes these edges again."""
        later = np.fromiter(self._later, dtype=np.int64, count=len(self._later))
        edges = np.concatenate([self._sorted, later])
        first = len(self._sorted) + 1
        numbers = np.concatenate([self._numbers, np.arange(first, first + len(later))])
        order = np.argsort(edges)
        return State({}, {"edges": edges[order], "numbers": numbers[order].astype(np.int32)})

    def added(self, edges: Sequence[int]) -> list[int]:
        """The numbers of these edges; new ones get the next."""
        if not len(self._sorted):
            return list(map(self._later.__getitem__, edges))
        saved = self._saved(edges)
        return [n or self._later[edge] for edge, n in zip(edges, saved, strict=True)]

    def found(self, edges: Sequence[int]) -> list[int | None]:
        """The numbers of these edges; None for those that are not known."""
        later = list(map(self._later.get, edges))
        if not len(self._sorted):
            return later
        return [n or other for n, other in zip(self._saved(edges), later, strict=True)]

    def _saved(self, edges: Sequence[int]) -> list[int]:
        """The numbers of saved edges; 0 for others."""
        wanted = np.array(edges, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found = np.where(self._sorted[places] == wanted, self._numbers[places], 0)
        return found.tolist()  # type: ignore[no-any-return]

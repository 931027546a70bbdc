"""Tables of a ledger as a few long arrays, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.classes import Partition
from qserver.ledger.loss_tables import SumTable, TableLayout
from qserver.records.state import State


def state_of_tables(tables: Sequence[SumTable]) -> State:
    """Axes, partitions and entries of these tables; partitions that they share are kept once."""
    partitions = {id(p): p for t in tables for p in t.layout.partitions}
    number = {key: i for i, key in enumerate(partitions)}
    found = list(partitions.values())
    return State(
        {},
        {
            "classes": np.array([p.n for p in found], dtype=np.int64),
            "runs": _ends(len(p.stops) for p in found),
            "stops": _joined([p.stops for p in found]),
            "ids": _joined([p.ids for p in found]),
            "widths": _ends(len(t.layout.axes) for t in tables),
            "axes": _whole(a for t in tables for a in t.layout.axes),
            "partitions": _whole(number[id(p)] for t in tables for p in t.layout.partitions),
            "entries": _ends(t.values.size for t in tables),
            "values": _joined([t.values.ravel() for t in tables]),
            "tops": _whole(t.top for t in tables),
        },
    )


def tables_of_state(state: State) -> list[SumTable]:
    """The tables that `state_of_tables` was given; their entries are not copied."""
    arrays = state.arrays
    partitions = [
        Partition(stops, ids, n)
        for stops, ids, n in zip(
            _parts(arrays["stops"], arrays["runs"]),
            _parts(arrays["ids"], arrays["runs"]),
            arrays["classes"].tolist(),
            strict=True,
        )
    ]
    columns = zip(
        _parts(arrays["axes"], arrays["widths"]),
        _parts(arrays["partitions"], arrays["widths"]),
        _parts(arrays["values"], arrays["entries"]),
        arrays["tops"].tolist(),
        strict=True,
    )
    layouts: dict[tuple[bytes, bytes], TableLayout] = {}
    found = []
    for axes, numbers, values, top in columns:
        key = axes.tobytes(), numbers.tobytes()
        if key not in layouts:
            chosen = tuple(partitions[i] for i in numbers.tolist())
            layouts[key] = TableLayout(tuple(axes.tolist()), chosen)
        layout = layouts[key]
        found.append(SumTable(layout, values.reshape(layout.shape), top=top))
    return found


def _ends(lengths: Iterator[int] | Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum(_whole(chain([0], lengths)))


def _whole(values: Iterator[int] | Sequence[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _joined(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


def _parts(values: NDArray[np.int64], ends: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    places = ends.tolist()
    return (values[a:b] for a, b in pairwise(places))

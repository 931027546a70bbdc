"""History as noisy marginals over classes of values.

One released table may be coarse (bands of ages) and another fine. A class holds the values that no
table and no row tells apart. The model works on classes, so that its tables stay small. A row takes
part if one table has all of its attributes.

A model of merged values keeps to the classes of wider tables. A one-way table then tells of a class
the sum of its values, and how these share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from qserver.answering.models.kinds.marginal_tables import weighed
from qserver.answering.models.kinds.rare_values import shares
from qserver.errors import InputError
from qserver.models.marginals.fit.observations import NoisyMarginal
from qserver.models.marginals.graph.layout import MAX_SCOPE, FloatArray, IndexArray, Scope
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement

MAX_CLIQUE_CELLS = 1 << 16
MAX_CELLS = 1 << 22
MAX_ROW_CELLS = 1 << 12
MAX_ROWS = 512

Labels: TypeAlias = Mapping[int, IndexArray]


@dataclass(frozen=True, eq=False)
class ReducedHistory:
    """Measurements of marginals over classes of values.

    Args:
        axes: positions in the domain of the model's attributes, ascending.
        classes: class of each value of each of them.
        shares: the part of each value in its class.
        measurements: scopes are positions within `axes`.
        total: number of records where a public row tells it, else None.
        ids: of the history's measurements that are among them.
        n_left_out: tables and rows that are not, for their size or their attributes.
    """

    axes: tuple[int, ...]
    classes: tuple[IndexArray, ...]
    shares: tuple[FloatArray, ...]
    measurements: tuple[NoisyMarginal, ...]
    total: float | None
    ids: tuple[int, ...]
    n_left_out: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes per attribute."""
        return tuple(int(c.max()) + 1 for c in self.classes)


def reduced_history(
    measurements: Sequence[AnyMeasurement], *, keeps_classes: bool = False
) -> ReducedHistory:
    """The history for a model: tables by rising noise, then rows, while its tables stay small.

    Args:
        keeps_classes: one-way tables do not split the classes of wider ones.

    Raises:
        InputError: no table tells of any attribute.
    """
    measurements = weighed(measurements)
    tables = [m for m in measurements if isinstance(m, TableMeasurement)]
    rows = [m for m in measurements if isinstance(m, Measurement)]
    taken, single = _Taken(), dict[int, TableMeasurement]()
    for table in sorted(tables, key=lambda t: (keeps_classes and _is_single(t), t.scale, t.id)):
        labels: Labels = {p.axis: p.dense for p in table.partition.axes}
        if keeps_classes and _is_single(table):
            [axis] = labels
            single.setdefault(axis, table)
            labels = {axis: taken.labels.get(axis, labels[axis])}
        taken.add(table.id, labels)
    if not taken.scopes:
        raise InputError("epsilon", "be above zero", hint="History has no table: buy one.")
    for row in sorted(rows, key=lambda r: (r.scale, r.id)):
        if not row.is_public and len(taken.rows) < MAX_ROWS:
            taken.add_row(row)
    return _reduced(taken, tables, rows, single)


def _is_single(table: TableMeasurement) -> bool:
    """Whether a table counts every value of one attribute."""
    parts = table.partition
    return len(parts.axes) == 1 and parts.n_cells == parts.sizes[parts.axes[0].axis]


class _Taken:
    """The measurements in use, and the classes of their attributes' values.

    Attributes:
        scopes: cells of each table of the model.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.rows: dict[int, Scope] = {}
        self.scopes: dict[Scope, int] = {}
        self.labels: dict[int, IndexArray] = {}
        self._sizes: dict[int, int] = {}
        self._n_cells = 0

    def add(self, number: int, labels: Labels) -> bool:
        """Add a measurement of these classes, if the tables stay small enough."""
        scope = tuple(sorted(labels))
        finer = {a: _refined(self.labels.get(a), found) for a, found in labels.items()}
        sizes = {a: int(c.max()) + 1 for a, c in finer.items()}
        # Only tables of attributes that fall into more classes grow: looking at all of them for
        # each that comes would be slow where they are thousands.
        grown = {a for a, n in sizes.items() if n != self._sizes.get(a)}
        changed = {s for s in self.scopes if not grown.isdisjoint(s)} if grown else set[Scope]()
        changed |= {scope} if scope else set()
        cells = {s: prod(sizes.get(a) or self._sizes[a] for a in s) for s in changed}
        n_cells = self._n_cells + sum(n - self.scopes.get(s, 0) for s, n in cells.items())
        is_small = max(cells.values(), default=0) <= MAX_CLIQUE_CELLS and n_cells <= MAX_CELLS
        if len(scope) > MAX_SCOPE or not is_small:
            return False
        self.labels.update(finer)
        self._sizes.update(sizes)
        self.scopes.update(cells)
        self._n_cells = n_cells
        self.ids.append(number)
        return True

    def add_row(self, row: Measurement) -> None:
        """Add a row, if one table has all of its attributes."""
        scope = _scope_of(row.row)
        if not scope or not any(set(scope) <= set(s) for s in self.scopes):
            return
        weights = [t.by_axis for t in row.row.terms]
        labels = {a: _joint([w[a].dense for w in weights if a in w]) for a in scope}
        finer = {a: _refined(self.labels.get(a), labels[a]) for a in scope}
        if prod(int(c.max()) + 1 for c in finer.values()) > MAX_ROW_CELLS:
            return
        if self.add(row.id, labels):
            self.rows[row.id] = scope


def _reduced(
    taken: _Taken,
    tables: Sequence[TableMeasurement],
    rows: Sequence[Measurement],
    single: Mapping[int, TableMeasurement],
) -> ReducedHistory:
    axes = tuple(sorted(taken.labels))
    place = {a: i for i, a in enumerate(axes)}
    ids = set(taken.ids)
    used = (t.ids for t in tables if t.id in ids)
    found = [_table(t, taken.labels, place) for t in tables if t.id in ids]
    found += [_row(r, taken.labels, place) for r in rows if r.id in taken.rows]
    public = [r for r in rows if r.is_public and not _scope_of(r.row) and r.row.terms]
    totals = [r.value_float / float(r.row.terms[0].coefficient) for r in public]
    n_left_out = len(tables) + len(rows) - len(taken.ids) - len(public)
    return ReducedHistory(
        axes=axes,
        classes=tuple(taken.labels[a] for a in axes),
        shares=tuple(_shares(taken.labels[a], single.get(a)) for a in axes),
        measurements=tuple(found),
        total=totals[-1] if totals else None,
        ids=tuple(sorted({*taken.rows, *chain.from_iterable(used)})),
        n_left_out=n_left_out,
    )


def _table(table: TableMeasurement, labels: Labels, place: Mapping[int, int]) -> NoisyMarginal:
    """The table as rows over the classes, or as the marginal if each class has a cell."""
    parts = table.partition.axes
    scope = tuple(place[p.axis] for p in parts)
    if len(parts) == 1 and parts[0].n > int(labels[parts[0].axis].max()) + 1:
        # A value has a part of its own, and a class several values.
        classes = labels[parts[0].axis]
        scales = _scale(table) * np.sqrt(np.bincount(classes))
        sums = np.bincount(classes, np.asarray(table.values, dtype=np.float64))
        return NoisyMarginal(scope, np.asarray(sums, dtype=np.float64), scales)
    # The part of each class: classes never straddle two parts.
    part_of = [_of_classes(p.dense, labels[p.axis]) for p in parts]
    values = np.asarray(table.values, dtype=np.float64)
    if all(len(part) == p.n for part, p in zip(part_of, parts, strict=True)):
        # One class per part, perhaps in another order.
        ordered = values[np.ix_(*part_of)] if parts else values
        return NoisyMarginal(scope, ordered.ravel(), np.array(_scale(table)))
    shape = tuple(len(part) for part in part_of)
    cells = np.ravel_multi_index(np.ix_(*part_of), values.shape)
    n_cells = prod(shape)
    where = (np.ones(n_cells), (np.broadcast_to(cells, shape).ravel(), np.arange(n_cells)))
    matrix = sparse.csr_array(where, shape=(values.size, n_cells))
    return NoisyMarginal(scope, values.ravel(), np.array(_scale(table)), matrix)


def _scale(one: AnyMeasurement) -> float:
    """As of `NoisyMarginal`."""
    return one.law.like_laplace(one.scale)


def _shares(classes: IndexArray, table: TableMeasurement | None) -> FloatArray:
    """The part of each value in its class: by a one-way table, or evenly."""
    if table is None:
        return np.asarray(1.0 / np.bincount(classes)[classes])
    return shares(np.asarray(table.values, dtype=np.float64), classes, _scale(table))


def _row(row: Measurement, labels: Labels, place: Mapping[int, int]) -> NoisyMarginal:
    scope = _scope_of(row.row)
    shape = [int(labels[a].max()) + 1 for a in scope]
    vector = np.zeros(shape)
    for term in row.row.terms:
        product: NDArray[np.float64] = np.array(float(term.coefficient))
        for a, n in zip(scope, shape, strict=True):
            weights = term.by_axis.get(a)
            by_class = (
                np.ones(n)
                if weights is None
                else _of_classes(weights.dense, labels[a]).astype(np.float64)
            )
            product = product[..., None] * by_class
        vector += product
    matrix = sparse.csr_array(vector.reshape(1, -1))
    scopes = tuple(place[a] for a in scope)
    return NoisyMarginal(scopes, np.array([row.value_float]), np.array([_scale(row)]), matrix)


def _scope_of(query: LinearQuery) -> Scope:
    return tuple(sorted({a for term in query.terms for a in term.by_axis}))


def _refined(old: IndexArray | None, new: NDArray[np.integer]) -> IndexArray:
    return _joint([new] if old is None else [old, new])


def _joint(labels: Sequence[NDArray[np.integer]]) -> IndexArray:
    """Classes of values whose labels are all equal, numbered by first occurrence."""
    stacked = np.stack([np.asarray(x, dtype=np.int64) for x in labels])
    _, first, inverse = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def _of_classes(values: NDArray[np.integer], classes: IndexArray) -> NDArray[np.intp]:
    """The value that all members of a class share."""
    found = np.empty(int(classes.max()) + 1, dtype=np.intp)
    found[classes] = values
    return found

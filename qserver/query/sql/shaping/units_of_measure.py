"""The units of a table's numbers: one WITHIN is about numbers of one unit.

A unit is a product of powers: of records, and of the attributes whose values are added up.
`COUNT(*)` has records, `SUM(a)` records times a, a quotient the quotient of both. So averages,
quantiles and deviations of one attribute share its unit, and shares have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from qserver.query.sql.attributes import Names
from qserver.query.sql.functions.item_meaning import Item, Several
from qserver.query.sql.logic import CONDITIONS, branches_of, is_branching

_RECORDS, _GROUPS = "", "groups"
_WITHOUT_UNIT = exp.Corr | exp.RegrR2 | exp.Skewness | exp.Kurtosis
_SQUARES = exp.Variance | exp.VariancePop


@dataclass(frozen=True)
class Unit:
    """A product of powers.

    Args:
        of: factors with their powers, in order; records are ''.
    """

    of: tuple[tuple[str, int], ...] = ()

    @classmethod
    def product(cls, powers: Mapping[str, int]) -> Unit:
        """The product of these powers."""
        return cls(tuple(sorted((name, n) for name, n in powers.items() if n)))

    def times(self, other: Unit, power: int = 1) -> Unit:
        """This unit times a power of another."""
        found = Counter(dict(self.of))
        for name, n in other.of:
            found[name] += power * n
        return self.product(found)

    def plus(self, other: Unit) -> Unit:
        """The unit of a sum: a plain number takes the other's unit."""
        found = dict(self.of)
        for name, n in other.of:
            found[name] = max(found.get(name, 0), n, key=abs)
        return self.product(found)

    @property
    def kind(self) -> str:
        """The kind of numbers with this unit: one of `KINDS`, or ''."""
        if self in (COUNTS, PURE):
            return "count" if self == COUNTS else "share"
        if dict(self.of).get(_RECORDS):
            return "sum"
        kinds: dict[tuple[int, ...], str] = {(1,): "avg", (2,): "variance"}
        is_groups = self.of == ((_GROUPS, 1),)
        return "groups" if is_groups else kinds.get(tuple(n for _, n in self.of), "")

    @property
    def text(self) -> str:
        """The unit in words."""
        names = " and ".join(f"`{name}`" for name, _ in self.of if name)
        if self == COUNTS:
            return "counts"
        if self.of == ((_GROUPS, 1),):
            return "numbers of groups"
        if not self.of:
            return "shares"
        if dict(self.of).get(_RECORDS):
            return f"sums of {names}"
        kinds: dict[tuple[int, ...], str] = {(1,): "averages", (2,): "variances"}
        return f"{kinds.get(tuple(n for _, n in self.of), 'quotients')} of {names}"


COUNTS, PURE = Unit(((_RECORDS, 1),)), Unit()
KINDS = ("count", "sum", "avg", "variance", "share", "groups")


def served(units: Sequence[Unit | None], shown: Sequence[bool]) -> frozenset[int]:
    """The columns of a statement's own WITHIN.

    These are the numbers that SELECT lists if they have one unit, else the counts; and others of
    the same unit. All others need their own lengths.

    Args:
        units: per column; None with its own length.
        shown: per column whether SELECT lists it, not only HAVING or ORDER BY.
    """
    lacking = {unit for unit, is_shown in zip(units, shown, strict=True) if is_shown} - {None}
    lacking = lacking or set(units) - {None}
    wanted = lacking if len(lacking) == 1 else {COUNTS}
    return frozenset(k for k, unit in enumerate(units) if unit in wanted)


def unit_of(node: exp.Expr, item: Item, names: Names) -> Unit:
    """The unit of WITHIN behind an aggregate; `item`: its meaning."""
    if isinstance(item, Several) and not item.function.has_steps:
        return COUNTS  # of an extreme it is about counts
    node = node.unnest()
    return _of_aggregate(node.this if isinstance(node, exp.Filter) else node, names)


def _of_aggregate(node: exp.Expr, names: Names) -> Unit:
    called = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, _WITHOUT_UNIT) or called == "KURTOSIS_POP":
        return PURE
    if isinstance(node, exp.RegrSlope | exp.RegrIntercept):
        y, x = (_of_aggregate(exp.Avg(this=of), names) for of in (node.this, node.expression))
        return y if isinstance(node, exp.RegrIntercept) else y.times(x, -1)
    if isinstance(node, exp.Count | exp.CountIf) or called == "PROBABILITY":
        return COUNTS
    axes = {names.any_axis(column) for column in _values(node)}
    values = Unit.product({names.domain.names[axis]: 1 for axis in axes})
    if isinstance(node, _SQUARES):
        return values.times(values)
    return COUNTS.times(values) if isinstance(node, exp.Sum) else values


def _values(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an aggregate's values, without those of conditions."""
    match node:
        case exp.Column():
            yield node
        case _ if isinstance(node, CONDITIONS):
            return
        case _ if is_branching(node):
            found = branches_of(node)
            for value in (*(value for _, value in found.pairs), found.default):
                yield from _values(value)
        case _:
            for one in node.iter_expressions():
                yield from _values(one)

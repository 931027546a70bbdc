"""The public domain: ordered attributes, each a finite list of labels or bins.

A cell is one value of each attribute. The number of cells may be 10^12; nothing here
materialises them. What happens to a record outside the domain is a stated rule per attribute.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Literal

from qserver.errors import DomainError
from qserver.query.calendar.periods import Periods
from qserver.query.numbers import MAX_DENOMINATOR, MAX_MAGNITUDE

Kind = Literal["labels", "integer", "real", "period"]
Outside = Literal["drop", "clamp", "other"]
Missing = Literal["drop", "other"]

MAX_ATTRIBUTES = 256
MAX_VALUES = 1 << 20
# Over all attributes: a few lines of a domain file can ask for far more than any memory holds.
MAX_VALUES_IN_ALL = 1 << 21
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


@dataclass(frozen=True)
class Attribute:
    """One public attribute.

    Args:
        name: letters, digits, `_`, `.`, `-`; at most 64 characters.
        kind: `labels`, `integer` bins, `real` bins, or `period`: labels in the order of time.
        labels: the labels, for kind `labels`, and for kind `period` without `periods`.
        edges: the k + 1 increasing edges of k half-open bins [e_i, e_(i+1)), for numeric kinds.
        outside: treatment of a value outside the labels or edges: `drop` its record, `clamp`
            it to the nearest bin (numeric kinds only), or count it under the label `other`.
        missing: treatment of a missing value: `drop` its record or count it under `other`.
        missing_markers: texts that mean a missing value, in addition to an empty field.
        other: the name of the extra value, where `outside` or `missing` is `other`.
        periods: the periods of the calendar whose ISO texts are the labels, for kind `period`.
        sealed: how many of the first periods have their data, where data arrive over time; None
            where all have. It is a state of the data and no part of a domain file.

    Raises:
        DomainError: a value is out of range; the message names the field.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    edges: tuple[Fraction, ...] = ()
    outside: Outside = "drop"
    missing: Missing = "drop"
    missing_markers: tuple[str, ...] = ()
    other: str = "other"
    periods: Periods | None = None
    sealed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.match(self.name):
            raise DomainError("name", "be 1 to 64 letters, digits, `_`, `.` or `-`", self.name)
        _check_choice("kind", self.kind, ("labels", "integer", "real", "period"))
        _check_choice("outside", self.outside, ("drop", "clamp", "other"))
        _check_choice("missing", self.missing, ("drop", "other"))
        if not isinstance(self.other, str) or not self.other:
            raise DomainError("other", "be a non-empty text", self.other)
        if self.periods is not None and (self.kind != "period" or self.labels):
            raise DomainError("every", "be absent where there are `labels` or bins")
        if self.is_numeric:
            self._check_edges()
        else:
            self._check_labels()
        if self.sealed is not None and (not self.is_period or not 0 <= self.sealed <= self.size):
            raise DomainError("sealed", "be a number of this attribute's periods", self.sealed)
        if not 1 <= self.size <= MAX_VALUES:
            raise DomainError(self.name, f"have 1 to {MAX_VALUES:,} values", self.size)

    def _check_labels(self) -> None:
        if self.edges:
            raise DomainError("edges", f"be absent for kind `{self.kind}`")
        if self.kind == "period":
            self._check_rules_of_periods()
        if self.periods is not None:
            return
        if not self.labels or not all(isinstance(x, str) and x for x in self.labels):
            raise DomainError("labels", "be a list of one or more non-empty texts")
        if len(set(self.labels)) < len(self.labels):
            repeated = Counter(self.labels).most_common(1)[0][0]
            raise DomainError("labels", "name each label once", repeated)
        if self.outside == "clamp":
            raise DomainError("outside", "be `drop` or `other` for kind `labels`", "clamp")
        if self.has_other and self.other in self.labels:
            raise DomainError(
                "other", "differ from every label", self.other, hint="Choose another name for it."
            )
        clash = set(self.labels) & set(self.missing_markers)
        if clash:
            raise DomainError("missing_markers", "not be labels too", min(clash))

    def _check_rules_of_periods(self) -> None:
        for rule in ("outside", "missing"):
            if getattr(self, rule) != "drop":
                raise DomainError(
                    rule,
                    "be `drop` for kind `period`",
                    getattr(self, rule),
                    hint="A record belongs to one period, or is left out.",
                )

    def _check_edges(self) -> None:
        if self.labels:
            raise DomainError("labels", f"be absent for kind `{self.kind}`")
        if len(self.edges) < 2:
            raise DomainError("edges", "be two or more increasing numbers")
        if not all(isinstance(e, int | Fraction) for e in self.edges):
            raise DomainError("edges", "be whole numbers or fractions")
        if any(b <= a for a, b in pairwise(self.edges)):
            raise DomainError("edges", "increase strictly")
        if max(-self.edges[0], self.edges[-1]) > MAX_MAGNITUDE:
            raise DomainError("edges", f"be at most {MAX_MAGNITUDE:,} in size")
        if any(e.denominator > MAX_DENOMINATOR for e in self.edges):
            raise DomainError("edges", "have denominators up to 10^9")
        if self.has_other and self.other[0] in "+-.[0123456789":
            # It could be the name of a bin, or a number.
            raise DomainError("other", "not begin like a number or a bin", self.other)
        if self.kind == "integer" and any(e.denominator != 1 for e in self.edges):
            raise DomainError("edges", "be whole numbers for kind `integer`")

    @property
    def has_other(self) -> bool:
        """Whether the attribute has the extra value `other`, the last one."""
        return "other" in (self.outside, self.missing)

    @property
    def is_numeric(self) -> bool:
        """Whether the values are bins of numbers."""
        return self.kind in ("integer", "real")

    @property
    def is_period(self) -> bool:
        """Whether the values are periods in the order of time."""
        return self.kind == "period"

    @property
    def n_sealed(self) -> int:
        """Number of values that questions may name: all, but for periods without data yet."""
        return self.size if self.sealed is None else self.sealed

    @property
    def n_regular(self) -> int:
        """Number of labels, periods or bins, without `other`."""
        if self.periods is not None:
            return self.periods.count
        return len(self.edges) - 1 if self.is_numeric else len(self.labels)

    @property
    def size(self) -> int:
        """Number of values, `other` included."""
        return self.n_regular + self.has_other

    @property
    def is_total(self) -> bool:
        """Whether every record keeps its place: nothing is dropped for this attribute."""
        return self.outside != "drop" and self.missing != "drop"

    @cached_property
    def value_names(self) -> tuple[str, ...]:
        """The values as texts, in order: labels, periods, or bins such as `20` or `[20, 25)`."""
        if self.periods is not None:
            names = list(self.periods.texts)
        elif not self.is_numeric:
            names = list(self.labels)
        else:
            names = [self._bin_name(low, high) for low, high in pairwise(self.edges)]
        return tuple(names + [self.other] * self.has_other)

    def _bin_name(self, low: Fraction, high: Fraction) -> str:
        if self.kind == "integer":
            last = high - 1
            return str(low) if low == last else f"{low}..{last}"
        return f"[{decimal_text(low)}, {decimal_text(high)})"

    def index_of_label(self, label: str) -> int | None:
        """Index of a label (or of `other`), or None."""
        return self._label_index.get(label)

    @cached_property
    def _label_index(self) -> dict[str, int]:
        index = {x: i for i, x in enumerate(self.labels)}
        if self.has_other:
            index[self.other] = self.size - 1
        return index

    def index_of_name(self, name: str) -> int | None:
        """Index of the value of this name (a label, a bin's name, `other`), or None."""
        return self._name_index.get(name)

    @cached_property
    def _name_index(self) -> dict[str, int]:
        return {x: i for i, x in enumerate(self.value_names)}

    def bin_of(self, value: Fraction) -> int | None:
        """Index of the bin that holds `value`, or None if it lies outside the edges."""
        i = bisect_right(self.edges, value) - 1
        return i if 0 <= i < self.n_regular else None


@dataclass(frozen=True)
class Domain:
    """Ordered public attributes with distinct names, at most one of them of kind `period`.

    Raises:
        DomainError: no attribute, too many, a name twice, too many values in all, or a second
            attribute of kind `period`.
    """

    attributes: tuple[Attribute, ...]
    _axis: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.attributes) <= MAX_ATTRIBUTES:
            raise DomainError("attributes", f"be a list of 1 to {MAX_ATTRIBUTES} attributes")
        check_n_values(sum(a.size for a in self.attributes))
        names = [a.name for a in self.attributes]
        for name in names:
            if names.count(name) > 1:
                raise DomainError("attributes", "have distinct names", name)
        if len(periods := [a.name for a in self.attributes if a.is_period]) > 1:
            raise DomainError(
                "attributes",
                "have at most one of kind `period`",
                hint=f"`{periods[0]}` and `{periods[1]}` both are; make one of them `labels`.",
            )
        object.__setattr__(self, "_axis", {n: i for i, n in enumerate(names)})

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values per attribute."""
        return tuple(a.size for a in self.attributes)

    @property
    def n_cells(self) -> int:
        """Number of cells, exactly."""
        return prod(self.sizes)

    @property
    def is_total(self) -> bool:
        """Whether every record maps to a cell, so that no record is ever dropped."""
        return all(a.is_total for a in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(self._axis)

    @property
    def period_axis(self) -> int | None:
        """Position of the attribute of kind `period`, or None if there is none."""
        return next((i for i, a in enumerate(self.attributes) if a.is_period), None)

    def axis(self, name: str) -> int | None:
        """Position of an attribute, or None if the domain lacks it."""
        return self._axis.get(name)


def check_n_values(n_values: int) -> None:
    """Raise DomainError if all attributes of a domain together have too many values."""
    if n_values > MAX_VALUES_IN_ALL:
        raise DomainError("attributes", f"have at most {MAX_VALUES_IN_ALL:,} values in all")


def decimal_text(value: Fraction) -> str:
    """`value` as a plain decimal where it has one, else as `p/q`."""
    if value.denominator == 1:
        return str(value.numerator)
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return ("-" if value < 0 else "") + digits[:-places] + "." + digits[-places:]


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise DomainError(name, "be one of " + ", ".join(f"`{c}`" for c in choices), value)

"""The public domain: ordered attributes, each a finite list of labels or bins.

A cell is one value of each attribute. The number of cells may be 10^12; nothing here materialises
them. Each attribute has a stated rule for records outside the domain.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Literal, get_args

from qserver.errors import DomainError
from qserver.query.calendar import Periods
from qserver.query.exact_numbers import MAX_DENOMINATOR, MAX_MAGNITUDE
from qserver.query.labels import (
    MAX_LEVELS,
    PLAIN,
    Cells,
    Level,
    check_codes,
    check_markers,
    index_of_boolean,
    recorded_texts,
)

Kind = Literal["labels", "integer", "real", "date", "period"]
Outside = Literal["drop", "clamp", "other"]
Missing = Literal["drop", "other"]

MAX_DESCRIPTION = 1000
MAX_LICENCE = 200
MAX_ATTRIBUTES = 256
MAX_VALUES = 1 << 20
# Over all attributes: a few lines of a domain file can ask for far more than any memory holds.
MAX_VALUES_IN_ALL = 1 << 21
MAX_COLUMN = 1024
_LIKE_NUMBERS = "+-.[0123456789"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


@dataclass(frozen=True)
class Attribute:
    """One public attribute.

    Args:
        name: letters, digits, `_`, `.`, `-`; at most 64 characters.
        kind: `labels`, `integer` bins, `real` bins, `date` bins of the calendar, or `period`:
            labels in the order of time, by which data may arrive.
        labels: the labels, for kind `labels`, and for kind `period` without `periods`.
        edges: the k + 1 increasing edges of k half-open bins [e_i, e_(i+1)), for numeric kinds.
        outside: treatment of a value outside the labels or edges: `drop` its record, `clamp`
            it to the nearest bin (numbers and dates only), or count it under the label `other`.
        missing: treatment of a missing value: `drop` its record or count it under `other`.
        says_missing: whether the domain sets it. If it sets only `outside`, `other` is a value like
            any, not NULL.
        missing_markers: texts that mean a missing value, in addition to an empty field.
        other: the name of the extra value, if `outside` or `missing` is `other`.
        periods: bins of the calendar whose ISO texts are the labels, for `date` and `period`.
        sealed: number of first periods with data, for data that arrive over time; else None. It is
            a state of the data, not part of a domain file.
        column: its source column; '' for the one with the attribute's name.
        codes: the column's code per label; empty if it holds the labels.
        levels: larger groups of the labels, for kind `labels`.
        cells: insignificant differences in its column.
        description: for people; it changes no question.

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
    column: str = ""
    codes: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    cells: Cells = PLAIN
    says_missing: bool = field(default=True, compare=False)
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_choice("kind", self.kind, get_args(Kind))
        _check_choice("outside", self.outside, ("drop", "clamp", "other"))
        _check_choice("missing", self.missing, ("drop", "other"))
        if not isinstance(self.other, str) or not self.other:
            raise DomainError("other", "be a non-empty text", self.other)
        self._check_periods()
        _check_line("description", self.description, MAX_DESCRIPTION)
        if not isinstance(self.column, str) or len(self.column) > MAX_COLUMN:
            raise DomainError("column", f"be a text of up to {MAX_COLUMN:,} characters")
        if self.is_numeric:
            self._check_edges()
        else:
            self._check_labels()
        if self.sealed is not None and (not self.is_period or not 0 <= self.sealed <= self.size):
            raise DomainError("sealed", "be a number of this attribute's periods", self.sealed)
        if not 1 <= self.size <= MAX_VALUES:
            raise DomainError(self.name, f"have 1 to {MAX_VALUES:,} values", self.size)

    def _check_periods(self) -> None:
        """Raise DomainError unless bins of the calendar are where they may, or must, be."""
        if self.periods is not None and (self.kind not in ("date", "period") or self.labels):
            raise DomainError("every", "be absent where there are `labels` or bins")
        if self.kind != "date":
            return
        if self.periods is None:
            raise DomainError("every", "be given for kind `date`, with `first` and `count`")
        if self.has_other and self.other[0] in _LIKE_NUMBERS:
            raise DomainError("other", "not begin like a number or a bin", self.other)

    def _check_labels(self) -> None:
        self._check_absent(("edges",))
        if self.kind == "period":
            self._check_rules_of_periods()
        self._check_absent(() if self.kind == "labels" else ("codes", "levels"))
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
        check_codes(self.codes, len(self.labels))
        self._check_levels()
        what = "codes" if self.codes else "labels"
        self.cells.check_distinct(self.codes or self.labels, what)
        check_markers(self.missing_markers, self.codes or self.labels, what)

    def _check_levels(self) -> None:
        if len(self.levels) > MAX_LEVELS:
            raise DomainError("levels", f"be at most {MAX_LEVELS}")
        for level in self.levels:
            if len(level.group_of) != len(self.labels):
                raise DomainError(f"levels.{level.name}", "have each label in one group")
            if self.has_other and self.other in level.groups:
                raise DomainError(f"levels.{level.name}", "not call a group as `other`", self.other)

    def _check_absent(self, names: Sequence[str]) -> None:
        for name in names:
            if getattr(self, name):
                raise DomainError(name, f"be absent for kind `{self.kind}`")

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
        self._check_absent(("labels", "codes", "levels"))
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
        if self.has_other and self.other[0] in _LIKE_NUMBERS:
            # It could be the name of a bin, or a number.
            raise DomainError("other", "not begin like a number or a bin", self.other)
        if self.kind == "integer" and any(e.denominator != 1 for e in self.edges):
            raise DomainError("edges", "be whole numbers for kind `integer`")

    @property
    def has_other(self) -> bool:
        """Whether the attribute has the extra last value `other`."""
        return "other" in (self.outside, self.missing)

    @property
    def null(self) -> int:
        """Mask of the value that SQL calls NULL: `other` by `missing`; 0 for none."""
        return 1 << self.n_regular if self.missing == "other" and self.says_missing else 0

    @property
    def is_numeric(self) -> bool:
        """Whether the values are bins of numbers."""
        return self.kind in ("integer", "real")

    @property
    def is_period(self) -> bool:
        """Whether the values are periods in the order of time."""
        return self.kind == "period"

    @property
    def is_timed(self) -> bool:
        """Whether the values are in the order of time: dates or periods."""
        return self.kind in ("date", "period")

    @property
    def source(self) -> str:
        """The source column."""
        return self.column or self.name

    @cached_property
    def recorded(self) -> dict[str, int]:
        """Texts in a column by label or period, each with its index."""
        if self.codes:
            return recorded_texts(self.codes)
        return {name: i for i, name in enumerate(self.value_names[: self.n_regular])}

    def index_of_code(self, code: object) -> int | None:
        """Index of the label with this number's text or boolean as code, else as text, or None."""
        texts = self.codes or self.labels
        if isinstance(code, bool):
            return index_of_boolean(texts, value=code)
        return self._code_index.get(code) if isinstance(code, str) else None

    @cached_property
    def _code_index(self) -> dict[str, int]:
        return {text: i for i, text in enumerate(self.codes or self.labels)}

    @property
    def n_sealed(self) -> int:
        """Number of values that questions may name: all except periods without data."""
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
        """Whether no record is dropped for this attribute."""
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

    Args:
        description, licence: of the data, for people; they change no question.
        within: default half-width of counts in SQL, or None.

    Raises:
        DomainError: no attribute, too many, a name twice, too many values in all, or a second
            attribute of kind `period`; or a text that is too long or not on one line.
    """

    attributes: tuple[Attribute, ...]
    description: str = field(default="", compare=False)
    licence: str = field(default="", compare=False)
    within: Fraction | None = field(default=None, compare=False)
    _axis: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)
    _levels: dict[str, tuple[int, Level]] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.attributes) <= MAX_ATTRIBUTES:
            raise DomainError("attributes", f"be a list of 1 to {MAX_ATTRIBUTES} attributes")
        check_n_values(sum(a.size for a in self.attributes))
        names = [a.name for a in self.attributes]
        levels = {
            level.name: (i, level) for i, a in enumerate(self.attributes) for level in a.levels
        }
        all_names = names + [level.name for a in self.attributes for level in a.levels]
        if len(set(all_names)) < len(all_names):
            repeated = Counter(all_names).most_common(1)[0][0]
            raise DomainError("attributes", "have distinct names", repeated)
        if len(periods := [a.name for a in self.attributes if a.is_period]) > 1:
            raise DomainError(
                "attributes",
                "have at most one of kind `period`",
                hint=f"`{periods[0]}` and `{periods[1]}` both are; make one of them `labels`.",
            )
        for name, most in (("description", MAX_DESCRIPTION), ("licence", MAX_LICENCE)):
            _check_line(name, getattr(self, name), most)
        object.__setattr__(self, "_axis", {n: i for i, n in enumerate(names)})
        object.__setattr__(self, "_levels", levels)

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
        """Whether every record maps to a cell, so that none is dropped."""
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

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of all levels above labels."""
        return tuple(self._levels)

    def level(self, name: str) -> tuple[int, Level] | None:
        """The level of this name with the position of its attribute, or None."""
        return self._levels.get(name)


def check_name(name: object) -> None:
    """Raise DomainError unless this may be the name of an attribute or level."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise DomainError(
            "name",
            "be 1 to 64 letters, digits, `_`, `.` or `-`, no digit first",
            name,
            hint="A column of any name is read by `column`." if isinstance(name, str) else "",
        )


def _check_line(name: str, text: object, most: int) -> None:
    """Raise DomainError unless this is a short text on one line."""
    if not (isinstance(text, str) and len(text) <= most and text.isprintable()):
        raise DomainError(name, f"be a text of at most {most:,} characters on one line")


def check_n_values(n_values: int) -> None:
    """Raise DomainError if all attributes of a domain together have too many values."""
    if n_values > MAX_VALUES_IN_ALL:
        raise DomainError("attributes", f"have at most {MAX_VALUES_IN_ALL:,} values in all")


def bins_text(attribute: Attribute) -> str:
    """A sentence why a condition cannot cut through a bin of a numeric attribute."""
    widths = {high - low for low, high in pairwise(attribute.edges)}
    if len(widths) > 1:
        return f"`{attribute.name}` is stored in bins of several widths; use their edges"
    step, first = next(iter(widths)), attribute.edges[0]
    text = decimal_text(step)
    if first % step:
        return f"`{attribute.name}` is stored in steps of {text} from {decimal_text(first)}"
    return f"`{attribute.name}` is stored in steps of {text}; use a multiple of {text}"


def decimal_text(value: Fraction) -> str:
    """`value` as a plain decimal if exact, else as `p/q`."""
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
        close = get_close_matches(str(value)[:64].lower(), choices, n=1)
        hint = f"Did you mean `{close[0]}`?" if close else ""
        raise DomainError(
            name, "be one of " + ", ".join(f"`{c}`" for c in choices), value, hint=hint
        )

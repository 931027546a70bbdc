"""The statement of a text of SQL: a table of linear queries and quotients of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

from qserver.errors import SqlError
from qserver.query.asking.after_looking import NOTHING_SEEN
from qserver.query.asking.method_and_prior import AS_EVER
from qserver.query.linear_query import LinearQuery
from qserver.query.requirement import Measure
from qserver.query.sql.exactness import UNSAID, Clauses, Exactness
from qserver.query.sql.functions.function_of_sums import Binning, Combined
from qserver.query.sql.order_by import PLAIN, Shape
from qserver.query.sql.shaping.inner_select import InnerSelect
from qserver.query.sql.shaping.ranks import Rank
from qserver.query.sql.shaping.rounding import Rounding
from qserver.query.sql.shaping.units_of_measure import COUNTS, Unit, served
from qserver.query.sql.text import SqlText

MAX_CELLS = 1000
"""Most numbers that a text asks."""


@dataclass(frozen=True)
class Sum:
    """A linear query.

    Args:
        binning: None if bins make no error.
        offset: added once the query's number is released; None makes it NULL for all data, as LAG
            of the first row.
    """

    query: LinearQuery
    binning: Binning | None = None
    offset: Fraction | None = Fraction(0)


@dataclass(frozen=True)
class Ratio:
    """A linear query divided by another; it has no value if the denominator is zero.

    Args:
        low, high: public bounds on its value, None if unknown.
        binning: None if bins make no error.
    """

    numerator: LinearQuery
    denominator: LinearQuery
    low: Fraction | None = None
    high: Fraction | None = None
    binning: Binning | None = None


Cell = Sum | Ratio | Combined
"""A number of a table."""


@dataclass(frozen=True)
class Bounds:
    """The ends between which PROBABILITY asks whether a number lies; they may be infinite."""

    low: float
    high: float


@dataclass(frozen=True)
class Course:
    """The part of GROUP BY with periods as groups.

    Args:
        group: its place among the groups.
        names: of all possible periods, in the order of time.
    """

    group: int
    names: tuple[str, ...]


GroupKind = Literal["text", "whole", "number", "truth", "day", "time"]
"""What the names of a group are: of a period its first day is meant, of a bin its first number."""


@dataclass(frozen=True)
class Row:
    """One group, and a cell per column.

    Args:
        group: the names of its values, in the order of GROUP BY; None for NULL, and for all values
            together.
        together: places of totals over all values, which have no name.
    """

    group: tuple[str | None, ...]
    cells: tuple[Cell, ...]
    together: tuple[int, ...] = ()

    @property
    def is_unnamed(self) -> bool:
        """Whether NULL is among its values."""
        return any(n is None and k not in self.together for k, n in enumerate(self.group))


@dataclass(frozen=True)
class Statement:
    """The meaning of a text.

    Args:
        source: the text.
        explains: whether it asks for the price only.
        columns: the columns' names, without those of the groups.
        groups: items of GROUP BY, by alias if any.
        rows: the measured groups, in the order of the domain unless ORDER BY names groups; one
            without GROUP BY.
        clauses: on exactness.
        bounds: per column the ends of PROBABILITY; empty for a table of numbers.
        shape: the shown rows and their order, by released numbers.
        digits: per column its rounding, or None; empty if no column has any.
        ranks: columns of ranks, after the others.
        exactness: per column, if other than the clauses; empty if none differs.
        course: the groups of periods; None without, or in a UNION.
        remarks: remarks on its numbers, groups and conditions, a sentence each: the month in
            which a week counts, or intervals that are longer than asked.
        places: per item of SELECT the index of its group, or of its column; None for both is a
            rank. Empty if SELECT lists none.
        units: per column; empty if irrelevant.
        stops: per column the end of its item in the text, or None.
        inner: the SELECTs of groups behind IN; their widest choices stand in their place.
        kinds: per group the kind of its names; empty for texts alone.

    Raises:
        SqlError: the clauses do not fit the table.
    """

    source: SqlText
    explains: bool
    columns: tuple[str, ...]
    groups: tuple[str, ...]
    rows: tuple[Row, ...]
    clauses: Clauses
    bounds: tuple[Bounds, ...] = ()
    shape: Shape = PLAIN
    digits: tuple[Rounding | None, ...] = ()
    ranks: tuple[Rank, ...] = ()
    exactness: tuple[Exactness, ...] = ()
    course: Course | None = None
    remarks: tuple[str, ...] = ()
    places: tuple[tuple[int | None, int | None], ...] = ()
    units: tuple[Unit, ...] = ()
    stops: tuple[int | None, ...] = ()
    inner: tuple[InnerSelect[Statement], ...] = ()
    kinds: tuple[GroupKind, ...] = ()

    def __post_init__(self) -> None:
        says, looking, n = self.clauses, self.clauses.looking, len(self.rows)
        chosen, is_one = looking.selected_from, not self.groups and self._is_one_sum
        rest = replace(says, measure=None, reading=AS_EVER)
        is_plain = says.reading == AS_EVER and not looking.independent
        if self.inner and (self.bounds or not is_plain):
            raise self.refuse(
                "have no PROBABILITY, INDEPENDENT, GIVEN or BY with a SELECT behind IN",
                "Ask the inner SELECT first, and write its groups: IN ('a', 'b').",
            )
        if self.bounds and (self.explains or rest != Clauses()):
            raise self.without_price()
        if says.reading != AS_EVER:
            self._check_reading(is_one=is_one)
        if self.bounds and self.exactness:
            raise self.without_price()
        if says.simultaneous and any(one.confidence for one in self.exactness):
            raise self.refuse("have one CONFIDENCE for all columns where it says SIMULTANEOUS")
        if looking.independent and not is_one:
            raise self.refuse(
                "ask for one count or sum where it says INDEPENDENT, without GROUP BY",
                "Name the group that was chosen in WHERE.",
            )
        if chosen is not None and chosen.m < n:
            raise self.refuse(
                f"choose among at least {n:,} numbers, as many groups are shown",
                f"Nearest: AS {chosen.rule.upper()} OF {n}.",
            )
        if chosen is not None and says.simultaneous:
            raise self.refuse(
                "not have both SIMULTANEOUS and AS LARGEST OF",
                "Intervals that all hold at once hold for any choice.",
            )

    def refuse(self, condition: str, hint: str = "") -> SqlError:
        """The error, at the end of the text, of an unmet condition."""
        return self.source.refuse(condition, self.source.end, hint=hint)

    def exactness_of(self, column: int) -> Exactness:
        """The exactness of a column: its own, or that of the clauses if they apply."""
        found = self.said_of(column).or_else(self.clauses.exactness)
        if found.half_width is None or column in self.served or self.said_of(column).has_length:
            return found
        return replace(found, half_width=None)

    def said_of(self, column: int) -> Exactness:
        """The exactness behind a column."""
        return self.exactness[column] if self.exactness else UNSAID

    @cached_property
    def served(self) -> frozenset[int]:
        """The columns of a WITHIN of the whole text."""
        units = self.units or (COUNTS,) * len(self.columns)
        lacking = [None if self.said_of(k).has_length else u for k, u in enumerate(units)]
        shown = [k >= len(self.stops) or self.stops[k] is not None for k in range(len(units))]
        inner = [unit for one in self.inner for unit in one.statement.units]
        found = served([*lacking, *inner], [*shown, *(True for _ in inner)])
        return frozenset(k for k in found if k < len(units))

    @property
    def order(self) -> tuple[int, ...]:
        """The items of SELECT in order, then the rest, as indices.

        Indices count `groups`, then `columns`, ranks last."""
        n_groups, n = len(self.groups), len(self.columns) + len(self.ranks)
        ranks = iter(range(n - self.places.count((None, None)), n))
        said = [
            group if group is not None else n_groups + (next(ranks) if column is None else column)
            for group, column in self.places
        ]
        return (*said, *(i for i in range(n_groups + n) if i not in said))

    @property
    def has_lengths(self) -> bool:
        """Whether every column has a length."""
        return all(self.exactness_of(k).has_length for k in range(len(self.columns)))

    def _check_reading(self, *, is_one: bool) -> None:
        if not is_one:
            raise self.refuse(
                "ask for one count, sum or PROBABILITY where it says GIVEN or BY, without GROUP BY",
                "Name the group in WHERE.",
            )
        if self.clauses.looking != NOTHING_SEEN or self.clauses.consistent:
            raise self.refuse(
                "have neither AS LARGEST OF, INDEPENDENT nor CONSISTENT with GIVEN or BY"
            )

    def without_length(self) -> SqlError:
        """The error that it gives no length of intervals."""
        return self.refuse(
            "say how long the interval may be",
            "Nearest: WITHIN 50 CONFIDENCE 0.95, 50 more or less with 95 percent confidence.",
        )

    def without_price(self) -> SqlError:
        """The error that probabilities have no price and no length."""
        return self.refuse(
            "have no EXPLAIN, WITHIN or CONFIDENCE with PROBABILITY, which costs nothing"
        )

    @property
    def is_processed(self) -> bool:
        """Whether released numbers are processed further."""
        has_offset = any(
            isinstance(cell, Sum) and cell.offset != 0 for row in self.rows for cell in row.cells
        )
        return self.shape != PLAIN or bool(self.digits or self.ranks) or has_offset

    @property
    def is_column_wise(self) -> bool:
        """Whether some column has its own exactness."""
        return bool(self.exactness) or self.clauses.part is not None

    @property
    def _is_one_sum(self) -> bool:
        is_one = len(self.columns) == 1 and bool(self.rows)
        return is_one and isinstance(self.rows[0].cells[0], Sum)

    def measuring(self, measure: Measure | None) -> Statement:
        """The statement with this `measure`, unless its text sets one."""
        kept = self.clauses.measure or measure
        return replace(self, clauses=replace(self.clauses, measure=kept))

    def with_default(self, default: Exactness) -> Statement:
        """The statement, with unset clauses filled in."""
        if self.bounds:
            return self
        found = self.clauses.exactness.or_else(default)
        clauses = replace(
            self.clauses, half_width=found.half_width, confidence=found.confidence, part=found.part
        )
        return replace(self, clauses=clauses)

    @property
    def only_query(self) -> LinearQuery:
        """The linear query of a text with exactly one.

        Raises:
            SqlError: it asks for several, or for a quotient.
        """
        cell = self.rows[0].cells[0] if self._is_one_sum else None
        is_more = (
            self.groups or self.bounds or self.is_processed or self.is_column_wise or self.inner
        )
        if is_more or self.inner or not isinstance(cell, Sum):
            raise self.refuse(
                "ask for one count or sum here, without GROUP BY",
                "Send the whole text to `sql` instead.",
            )
        return cell.query

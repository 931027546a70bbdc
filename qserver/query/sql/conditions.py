"""Turn conditions of a text of SQL into sets of cells.

A condition is true, false or unknown on every cell (`logic` has the rules): unknown where a
comparison meets a missing value. A value `other` of a numeric attribute that is not missing is no
number: comparisons with numbers are false for it, and so NOT keeps it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import TypeGuard

from sqlglot import exp

from qserver.errors import QueryError, SqlError
from qserver.query.calendar import EXAMPLES
from qserver.query.domain import Attribute
from qserver.query.sealed_periods import (
    check_sealed,
    first_and_last,
    index_of_period,
    range_from,
    range_up_to,
)
from qserver.query.sql.attributes import (
    Names,
    code_mask,
    constant,
    known_text,
    label_mask,
    listed,
    quoted,
)
from qserver.query.sql.logic import (
    ARITHMETIC,
    NOT_FALSE,
    NOT_TRUE,
    TRUE,
    Branching,
    Truth,
    between,
    branches_of,
    compared,
    is_branching,
    is_text,
    made,
    of_two,
)
from qserver.query.sql.regions import ALL, NOTHING, Region, Regions
from qserver.query.sql.text import ASK_FIRST, CHOOSES, NO_SELECT, NO_TEST, SqlText
from qserver.query.sql.values.expression_values import Derived
from qserver.query.sql.values.ranges import compared_on_bins, is_of_bins
from qserver.query.sql.values.record_functions import called, derived, is_derived, truth_of
from qserver.query.sql.words import is_last, last

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
# The caller takes the rest for <>.
_ORDERED: dict[type[exp.Expr], Callable[[Fraction, Fraction], bool]] = {
    exp.EQ: operator.eq,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
} | {exp.NEQ: operator.eq, exp.GT: operator.gt, exp.GTE: operator.ge}
_SETS = (exp.Between, exp.In, exp.Like, exp.ILike)
_ONE_ATTRIBUTE = "compare one attribute with numbers or labels"


class Predicates:
    """Conditions on one domain, with a limit on work.

    Args:
        names: the names that the text may use.
        regions: sets of cells of the same domain.
    """

    def __init__(self, names: Names, regions: Regions) -> None:
        self._names = names
        self._source = names.source
        self._domain = names.domain
        self._regions = regions

    def region(self, node: exp.Expr, asked: Truth = TRUE) -> Region:
        """The cells with a given truth of a condition.

        Raises:
            SqlError: it is not a condition on this domain, or it cuts through a bin.
            CapacityError: it needs too many boxes or steps.
        """
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self.region(node.this, asked.of_opposite)
        if isinstance(node, exp.And | exp.Or):
            parts = [self.region(part, asked) for part in node.flatten()]
            return self._regions.joined(
                parts, all_of=asked.needs_all(of_and=isinstance(node, exp.And))
            )
        if isinstance(node, exp.Boolean | exp.Null):
            return _fixed(None if isinstance(node, exp.Null) else bool(node.this), asked)
        if is_branching(node):
            return self._case(node, asked)
        if isinstance(node, exp.Column):
            return self._boolean(node, exp.true(), asked)
        if isinstance(node, exp.Is):
            return self._is(node, asked)
        if is_last(node):
            axis, periods = last(node, self._domain, self._source)
            return self._of_mask(axis, _mask(periods), asked)
        return self._compared(node, asked)

    def _case(self, node: Branching, asked: Truth) -> Region:
        """The first branch whose condition is true decides; without one it is unknown."""
        rest, found = ALL, list[Region]()
        branches = branches_of(node)
        for condition, value in branches.pairs:
            here = self._regions.both(rest, self.region(condition))
            found.append(self._regions.both(here, self.region(value, asked)) if here else here)
            rest = self._regions.both(rest, self.region(condition, NOT_TRUE))
        found.append(self._regions.both(rest, self.region(branches.default, asked)))
        return self._regions.either(found)

    def _compared(self, node: exp.Expr, asked: Truth) -> Region:
        """A comparison of something with constants."""
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            if self._is_subject(node.this.unnest()) and self._is_subject(node.expression.unnest()):
                return self._evaluated(node, asked)
            asked = asked if isinstance(node, exp.NullSafeEQ) else asked.of_opposite
            return self._is(_same(node), asked)
        if not isinstance(node, (*_FLIPPED, *_SETS)):
            return self._evaluated(node, asked)
        subject = node.this.unnest()
        if is_branching(subject) and not self._is_subject(subject):
            return self._case(compared(node, subject), asked)
        if isinstance(subject, exp.Null):
            self._check_names(node)
            return _fixed(None, asked)
        if isinstance(node, exp.Between):
            return self._between(node, asked)
        if isinstance(node, exp.In):
            return self._in(node, asked)
        if isinstance(node, exp.Like | exp.ILike):
            return self._like(node, asked)
        return self._comparison(node, asked)

    def _is(self, node: exp.Is, asked: Truth) -> Region:
        subject, value = node.this.unnest(), node.expression
        if isinstance(value, exp.Null):
            return self._is_null(node, subject, asked)
        if not isinstance(value, exp.Boolean):
            raise self._no_condition(node)
        if isinstance(subject, exp.Column):
            return self._boolean(subject, value, asked, is_known=True)
        # Never unknown: it is not true where the subject is unknown, too.
        of = Truth(bool(value.this))
        return self.region(subject, of if asked.value != asked.is_rest else of.rest)

    def _boolean(
        self, subject: exp.Column, value: exp.Boolean, asked: Truth, *, is_known: bool = False
    ) -> Region:
        """`smoker`, `smoker IS FALSE`: labels whose codes are true and false.

        Args:
            is_known: whether it is false, not unknown, for a missing value.
        """
        if self._names.level(subject) is not None:
            raise self._no_condition(subject)
        axis = self._names.axis(subject)
        index = self._domain.attributes[axis].index_of_code(bool(value.this))
        if index is None:
            raise self._no_condition(subject)
        unknown = 0 if is_known else self._names.null(axis)
        return self._of_mask(axis, 1 << index, asked, unknown)

    def _comparison(self, node: exp.Expr, asked: Truth) -> Region:
        left, right = node.this.unnest(), node.expression.unnest()
        kind: type[exp.Expr] = type(node)
        if self._is_of_bins(left, right):
            return self._on_bins(node, asked)
        if not self._is_subject(left) and (self._is_subject(right) or is_branching(right)):
            return self._compared(of_two(_FLIPPED[kind], right, left), asked)
        if isinstance(right, exp.Null):
            self._check_names(node)
            return _fixed(None, asked)
        if self._is_subject(right) and self._is_subject(left):
            self._check_alike(left, right, node)
            return self._evaluated(node, asked)
        if not self._is_subject(left):
            return self._evaluated(node, asked)
        asked = asked.of_opposite if kind is exp.NEQ else asked
        if (found := derived(left, self._names, self._regions)) is not None:
            true = compared_values(found, left, kind, right, self._names)
            return found.where(true, asked, self._regions)
        if not isinstance(left, exp.Column):
            raise self._no_condition(node)
        return self._of_attribute(self._names.axis(left), right, node, asked)

    def _of_attribute(self, axis: int, value: exp.Expr, node: exp.Expr, asked: Truth) -> Region:
        """A comparison of an attribute; for <> `asked` is about =."""
        attribute = self._domain.attributes[axis]
        if attribute.is_timed:
            periods = compared_period(attribute, type(node), value, self._source)
            return self._of_mask(axis, _mask(periods), asked)
        if isinstance(node, exp.EQ | exp.NEQ):
            return self._of_mask(axis, self._value_mask(axis, value), asked)
        if attribute.kind == "labels" and is_text(value):
            return self._evaluated(node, asked)  # in the order of texts
        raise self._no_number(axis, value, node)

    def _is_of_bins(self, *parts: exp.Expr) -> bool:
        """Whether expressions are numbers made of bins of numbers."""
        of_bins = [is_of_bins(part, self._names) for part in parts]
        return any(of_bins) and all(
            one or constant(part, self._source) is not None
            for one, part in zip(of_bins, parts, strict=True)
        )

    def _on_bins(self, node: exp.Expr, asked: Truth) -> Region:
        """A comparison of numbers, or BETWEEN, evaluated on each bin."""
        if isinstance(node, exp.NEQ):
            return self._on_bins(made(exp.EQ, node.args), asked.of_opposite)
        if isinstance(node, exp.EQ) and (mask := self._bin_of(node)) is not None:
            return self._of_mask(self._names.axis(node.this.unnest()), mask, asked)
        found = compared_on_bins(node, self._names, self._regions)
        return found.where({"true"}, asked, self._regions)

    def _bin_of(self, node: exp.EQ) -> int | None:
        """The mask of the bin with a given number, for long lists; None for other questions."""
        column, number = node.this.unnest(), constant(node.expression, self._source)
        if not isinstance(column, exp.Column) or number is None:
            return None
        attribute = self._domain.attributes[self._names.axis(column)]
        at = attribute.bin_of(number)
        if at is None:
            return 0
        is_one = attribute.edges[at] == number == attribute.edges[at + 1] - 1
        return 1 << at if is_one and attribute.kind == "integer" else None

    def _check_names(self, node: exp.Expr) -> None:
        """Raise SqlError if an expression names no attribute."""
        for column in node.find_all(exp.Column):
            self._names.any_axis(column)

    def _between(self, node: exp.Between, asked: Truth) -> Region:
        subject, low, high = node.this.unnest(), node.args["low"], node.args["high"]
        if node.args.get("symmetric"):
            one, other = (constant(end, self._source) for end in (low, high))
            if one is None or other is None:
                raise self._source.refuse(_ONE_ATTRIBUTE, node)
            low, high = (high, low) if other < one else (low, high)
        whole = made(exp.Between, {"this": subject, "low": low, "high": high})
        if self._is_of_bins(subject, low, high):
            return self._on_bins(whole, asked)
        parts = [self._compared(end, asked) for end in between(whole)]
        return self._regions.joined(parts, all_of=asked.needs_all(of_and=True))

    def _in(self, node: exp.In, asked: Truth) -> Region:
        """IN with a list of values or tuples."""
        if (query := node.args.get("query")) is not None:
            raise self._source.refuse(NO_TEST, query, hint=CHOOSES)
        if not node.expressions:
            raise self._source.refuse("give IN an attribute and a list of its values", node)
        found = list[Region]()
        for item in node.expressions:
            pairs = self._pairs(node, item.unnest())
            parts = [self._compared(of_two(exp.EQ, *pair), asked) for pair in pairs]
            found.append(self._regions.joined(parts, all_of=asked.needs_all(of_and=True)))
        return self._regions.joined(found, all_of=asked.needs_all(of_and=False))

    def _pairs(self, node: exp.In, item: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
        """The equal pairs of an item: (a, b) IN ((1, 2), (3, 4)) has two."""
        subject = node.this.unnest()
        if not isinstance(subject, exp.Tuple):
            return [(subject, item)]
        values = item.expressions if isinstance(item, exp.Tuple) else []
        if len(values) != len(subject.expressions):
            raise self._source.refuse(
                f"give IN lists of {len(subject.expressions)} values, one for each attribute",
                node,
                hint="Nearest: (a, b) IN ((1, 2), (3, 4)).",
            )
        return list(zip(subject.expressions, values, strict=True))

    def _like(self, node: exp.Like | exp.ILike, asked: Truth) -> Region:
        """LIKE as IN with the labels that match: labels are public.

        Raises:
            SqlError: none matches, which is nearly always a mistake.
        """
        subject, pattern = node.this.unnest(), node.expression.unnest()
        if node.args.get("negate"):
            return self._like(made(type(node), {**node.args, "negate": None}), asked.of_opposite)
        if not (self._is_subject(subject) or is_text(subject)) or not is_text(pattern):
            raise self._source.refuse(
                "give LIKE an attribute and a text",
                node,
                hint="Nearest: name LIKE 'A%', where % is any text and _ one character.",
            )
        texts = self._texts(subject, node)
        found = self._truth_of(node)
        if texts and "true" not in found.regions:
            wrong = f"fit a label of `{called(node, self._names)}`"
            raise self._source.refuse(wrong, pattern, hint=f"Values: {listed(texts)}.")
        return found.where({"true"}, asked, self._regions)

    def _texts(self, subject: exp.Expr, node: exp.Expr) -> tuple[str, ...]:
        """The possible texts of a subject; none for a constant."""
        if (found := derived(subject, self._names, self._regions)) is not None:
            return tuple(found.regions)
        if not isinstance(subject, exp.Column):
            return ()
        attribute = self._domain.attributes[self._names.axis(subject)]
        if attribute.kind != "labels":
            raise self._source.refuse(
                f"use LIKE with labels: `{attribute.name}` has none",
                node.expression,
                hint=f"Nearest: {quoted(attribute.name)} BETWEEN ... AND ...",
            )
        return attribute.value_names

    def _check_alike(self, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> None:
        """Raise SqlError where two columns have no value in common."""
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            return
        axes = [self._names.any_axis(column) for column in (left, right)]
        kinds = [self._domain.attributes[axis].kind == "labels" for axis in axes]
        texts = [self._texts(one, node) for one in (left, right)] if all(kinds) else []
        if any(kinds) and (not texts or not set(texts[0]) & set(texts[1])):
            raise self._source.refuse(
                _ONE_ATTRIBUTE, node, hint="Nearest: name the values that it may have."
            )

    def _evaluated(self, node: exp.Expr, asked: Truth) -> Region:
        """A condition on single values, evaluated by the engine."""
        found = self._truth_of(node)
        # What is no number is different from any.
        differs = isinstance(node, exp.NEQ | exp.NullSafeNEQ)
        true = found.regions.keys() - {"false"} if differs else {"true"}
        return found.where(true, asked, self._regions)

    def _truth_of(self, node: exp.Expr) -> Derived:
        found = truth_of(node, self._names, self._regions)
        if found is None:
            raise self._no_condition(node)
        return found

    def _is_null(self, node: exp.Is, subject: exp.Expr, asked: Truth) -> Region:
        """The cells with a missing value or an unknown condition; IS NULL is never unknown."""
        if is_branching(subject):
            return self._case(compared(node, subject), asked)
        is_plain = is_text(subject) or isinstance(subject, exp.Boolean | exp.Null)
        if is_plain or constant(subject, self._source) is not None:
            return _fixed(isinstance(subject, exp.Null), asked)
        if isinstance(subject, exp.Column) and self._names.level(subject) is None:
            axis = self._names.axis(subject)
            return self._of_mask(axis, self._domain.attributes[axis].null, asked, 0)
        if isinstance(subject, ARITHMETIC):
            columns = list(subject.find_all(exp.Column))
            parts = [self._is_null(node, column, asked) for column in columns]
            return self._regions.joined(parts, all_of=asked.needs_all(of_and=False))
        if (found := derived(subject, self._names, self._regions)) is not None:
            known = found.regions.values() if asked.holds(value=False) else ()
            return self._regions.either([*known, *([found.null] * asked.holds(value=True))])
        either = asked.value == asked.is_rest
        known_by = (TRUE, TRUE.of_opposite) if either else (NOT_TRUE, NOT_FALSE)
        return self._regions.joined(
            [self.region(subject, one) for one in known_by], all_of=not either
        )

    def _value_mask(self, axis: int, node: exp.Expr) -> int:
        """The mask of one value of an attribute: a label, the name of a bin, or a number."""
        attribute = self._domain.attributes[axis]
        if attribute.kind == "labels" and is_text(node) and not node.this:
            return 0  # no label is empty, and tools ask for it
        if is_text(node):
            return label_mask(attribute, node, self._source)
        if attribute.kind == "labels" and (mask := code_mask(attribute, node, self._source)):
            return mask
        raise self._no_number(axis, node, node)

    def _no_number(self, axis: int, node: exp.Expr, whole: exp.Expr) -> SqlError:
        """The refusal to compare an attribute with a value that it lacks."""
        attribute = self._domain.attributes[axis]
        if isinstance(node, exp.Query):
            return self._source.refuse(NO_SELECT, node, hint=ASK_FIRST)
        if attribute.kind == "labels":
            shown = ", ".join(f"'{label[:40]}'" for label in attribute.value_names[:3])
            return self._source.refuse(
                f"compare `{attribute.name}`, which has labels, by =, <> or IN with texts",
                whole,
                hint=f"Its labels are such as {shown}.",
            )
        return self._source.refuse(f"compare `{attribute.name}` with numbers", node)

    def _is_subject(self, node: exp.Expr) -> TypeGuard[exp.Expr]:
        """Whether an expression is a condition's subject: an attribute, or derived from one."""
        return isinstance(node, exp.Column) or is_derived(node, self._names)

    def _of_mask(self, axis: int, mask: int, asked: Truth, unknown: int | None = None) -> Region:
        """The cells of a condition on one attribute, by the mask of its true values.

        Args:
            unknown: values with an unknown result, unless named; NULL by default.
        """
        size = self._domain.sizes[axis]
        self._regions.take(1, size)
        null = self._names.null(axis) if unknown is None else unknown
        return self._regions.of_mask(axis, asked.mask(mask, null & ~mask, (1 << size) - 1))

    def _no_condition(self, node: exp.Expr) -> SqlError:
        self._check_names(node)
        if isinstance(node, exp.Is):
            return self._source.refuse(
                "not compare with NULL, which is true of no record",
                node,
                hint="Nearest: IS NULL, or IS NOT NULL.",
            )
        if isinstance(node, exp.AggFunc):
            return self._source.refuse(
                "have no aggregate in a condition: which records count must be public", node
            )
        return self._source.refuse(f"have conditions that {_ONE_ATTRIBUTE}", node)


def _fixed(value: bool | None, asked: Truth) -> Region:  # noqa: FBT001
    """The cells of a constant condition; None for unknown."""
    return ALL if asked.mask(value is True, value is None, 1) else NOTHING


def _same(node: exp.NullSafeEQ | exp.NullSafeNEQ) -> exp.Is:
    """Whether two values are the same, NULL included: IS [NOT] DISTINCT FROM."""
    is_null = isinstance(node.expression.unnest(), exp.Null)
    equal = of_two(exp.EQ, node.this, node.expression)
    found: exp.Is = of_two(
        exp.Is, *((node.this, node.expression) if is_null else (equal, exp.true()))
    )
    return found


def _mask(indexes: range) -> int:
    return ((1 << len(indexes)) - 1) << indexes.start


def compared_values(
    found: Derived, of: exp.Expr, kind: type[exp.Expr], value: exp.Expr, names: Names
) -> set[str | None]:
    """The values for which a comparison with a constant holds; for <> those of =.

    Values without a place in the order, such as `other`, match only = with their name. If missing
    values have a name, = with it means IS NULL.

    Raises:
        SqlError: the attribute cannot have the value.
        PeriodNotSealedError: the named periods have no data yet.
    """
    value = value.unnest()
    is_equality, name = kind in (exp.EQ, exp.NEQ), called(of, names)
    text = value.name if is_text(value) else None
    if is_equality and text is not None:
        if text == found.missing != "" and text not in found.regions:
            return {None}
        if text == "" and found.of == "text" and text not in found.regions:
            return set()
    if is_equality and text is not None and (found.of == "text" or text in found.regions):
        true = {known_text(name, tuple(found.regions), text, value, names.source)}
    elif found.of == "truth" and is_equality and isinstance(value, exp.Boolean):
        true = {str(value.this).lower()}
    elif found.of in ("text", "truth"):
        raise names.source.refuse(f"compare `{name}` by =, <>, IN or LIKE with texts", value)
    else:
        place = _place(found, name, value, names, is_equality=is_equality)
        holds = _ORDERED[kind]
        true = {text for text, at in found.places.items() if holds(Fraction(at), place)}
    if found.of == "period" and len(found.axes) == 1:
        [axis] = found.axes
        everything = (1 << names.domain.sizes[axis]) - 1
        mask = sum(box.get(axis, everything) for text in true for box in found.regions[text])
        # The last of the periods that are named, or from one on the first.
        last_one = mask & -mask if kind in (exp.GT, exp.GTE) else mask
        if mask:
            attribute = names.domain.attributes[axis]
            check_sealed(attribute, last_one.bit_length() - 1, value.name, name="sql")
    return {*true}


def _place(
    found: Derived, name: str, value: exp.Expr, names: Names, *, is_equality: bool
) -> Fraction:
    """The place of a constant among the values."""
    source = names.source
    if found.of == "number":
        number = constant(value, source)
        if number is None:
            raise source.refuse(f"compare a number of `{name}` with numbers", value)
        return number
    text = value.name if isinstance(value, exp.Literal) else ""
    days = first_and_last(text)
    hint = f"Such as '{next(iter(found.places))}'."
    if days is None:
        raise source.refuse(
            f"compare a {found.unit} of `{name}` with a {found.unit} or a date in quotes",
            value,
            hint=f"{hint} The number alone is EXTRACT({str(found.unit).upper()} FROM ...).",
        )
    place = days[0].toordinal()
    least, most = min(found.places.values()), max(found.places.values())
    if is_equality and least <= place <= most and place not in found.places.values():
        raise source.refuse(f"name the first day of a {found.unit}, or the {found.unit}", value)
    return Fraction(place)


def compared_period(
    attribute: Attribute, kind: type[exp.Expr], end: exp.Expr, source: SqlText
) -> range:
    """Indexes of the periods for which a comparison with `end` holds, but for <>: those of =.

    Raises:
        SqlError: the end is no label or date, or cuts through a period.
        PeriodNotSealedError: the end's own period has no data yet.
    """
    end = end.unnest()
    if not isinstance(end, exp.Literal):
        example = attribute.value_names[0]
        if attribute.periods is not None and attribute.periods.every != "day":
            example += f"' or '{EXAMPLES['day']}"
        wrong = f"compare `{attribute.name}` with periods or dates in quotes"
        raise source.refuse(wrong, end, hint=f"Such as '{example}'.")
    text = str(end.this)
    try:
        if kind in (exp.EQ, exp.NEQ):
            at = index_of_period(attribute, text, name="sql")
            return range(at, at + 1)
        # What lies before the end, and what does not; the end's own period is before or after.
        of = range_up_to if kind in (exp.LT, exp.LTE) else range_from
        return of(attribute, text, name="sql", after=kind in (exp.LTE, exp.GT))
    except QueryError as exc:
        said = exc.condition
        if said.startswith("be "):
            said = f"compare `{attribute.name}` with {said.removeprefix('be ')}"
        raise source.refuse(said, end, hint=exc.hint) from exc

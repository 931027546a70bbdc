"""Names and values in a text of SQL: attributes, labels and their patterns, numbers, whole bins."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, TypeGuard, TypeVar

from sqlglot import exp

from qserver.errors import QueryError, SqlError
from qserver.query.domain import Attribute, Domain, decimal_text
from qserver.query.exact_numbers import MAX_DENOMINATOR, MAX_MAGNITUDE, exact_number
from qserver.query.labels import Level
from qserver.query.sql.text import SqlText

_OPERATORS: dict[type[exp.Expr], Callable[[Fraction, Fraction], Fraction]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
} | {exp.Mul: operator.mul, exp.Div: operator.truediv}
_MOST_SHOWN = 12
# Most names that are searched for close matches: each costs time.
_MOST_COMPARED = 500


Made = TypeVar("Made")


@dataclass(frozen=True)
class Names:
    """The names that a text may use.

    Args:
        tables: the dataset's names before a dot: its name and its alias.
    """

    domain: Domain
    source: SqlText
    tables: tuple[str, ...] = ()
    _memory: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False)

    def remembered(self, what: str, node: exp.Expr, make: Callable[[], Made]) -> Made:
        """Cache of results by expression: a text is read several times."""
        key = (what, node)
        if key not in self._memory:
            self._memory[key] = make()
        made: Made = self._memory[key]
        return made

    def null(self, axis: int) -> int:
        """Mask of an attribute's NULL value; 0 for none."""
        return self.domain.attributes[axis].null

    def axis(self, node: exp.Column) -> int:
        """Index of the attribute that a column names.

        A name without quotes may differ in capitals if only one attribute fits.

        Raises:
            SqlError: there is none of this name.
        """
        table = node.args.get("table")
        if table is not None and not any(is_same(t, table) for t in self.tables):
            raise self.source.refuse("name the dataset it reads, or nothing, before a dot", table)
        name = node.this
        if not isinstance(name, exp.Identifier):
            raise self.source.refuse("name an attribute", node)
        found = self._axis_of(name)
        if found is None and (level := self.level(node)) is not None:
            labels = quoted(self.domain.names[level[0]])
            raise self.source.refuse(
                f"name an attribute here: `{level[1].name}` joins labels of {labels}", node
            )
        if found is None:
            raise self._unknown(name)
        return found

    def any_axis(self, node: exp.Column) -> int:
        """Index of the attribute of a column or a level.

        Raises:
            SqlError: there is none of this name.
        """
        level = self.level(node)
        return self.axis(node) if level is None else level[0]

    def level(self, node: exp.Expr) -> tuple[int, Level] | None:
        """The level of a column, with the attribute's index; None for another node."""
        if not self._is_ours(node) or self._axis_of(node.this) is not None:
            return None
        name = _one_of(self.domain.level_names, node.this)
        return None if name is None else self.domain.level(name)

    def is_axis(self, node: exp.Expr, axis: int) -> bool:
        """Whether an expression is a column that names this attribute."""
        return self._is_ours(node) and self._axis_of(node.this) == axis

    def is_known(self, node: exp.Expr) -> TypeGuard[exp.Column]:
        """Whether an expression is a column that names an attribute or a level."""
        return self._is_ours(node) and (
            self._axis_of(node.this) is not None or self.level(node) is not None
        )

    def _is_ours(self, node: exp.Expr) -> TypeGuard[exp.Column]:
        """Whether a column's table is this dataset."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        table = node.args.get("table")
        return table is None or any(is_same(t, table) for t in self.tables)

    def _axis_of(self, name: exp.Identifier) -> int | None:
        found = _one_of(self.domain.names, name)
        return None if found is None else self.domain.axis(found)

    def _unknown(self, name: exp.Identifier) -> Exception:
        names = (*self.domain.names, *self.domain.level_names)
        hint = "Attributes: " + listed(names) + "."
        if any(a.index_of_name(name.name) is not None for a in self.domain.attributes):
            hint = f"Text stands in single quotes: '{name.name[:40]}'."
        elif close := _closest(name.name, names):
            hint = f"Did you mean `{close}`? {hint}"
        return self.source.refuse(
            f"name attributes of the dataset, got `{name.name[:40]}`", name, hint=hint
        )


def label_mask(attribute: Attribute, node: exp.Literal, source: SqlText) -> int:
    """The mask of the value with this name; SqlError if the attribute has none."""
    index = attribute.index_of_name(node.this)
    if index is not None:
        return 1 << index
    kind = "a label" if attribute.kind == "labels" else "a number or a value"
    wrong = f"compare `{attribute.name}` with {kind} of it"
    raise _no_value(wrong, attribute.value_names, node.this, node, source)


def known_text(
    name: str, texts: tuple[str, ...], text: str, node: exp.Expr, source: SqlText
) -> str:
    """The written text; SqlError if the attribute lacks it."""
    if text in texts:
        return text
    raise _no_value(f"compare `{name}` with a value of it", texts, text, node, source)


def _no_value(
    wrong: str, texts: tuple[str, ...], text: str, node: exp.Expr, source: SqlText
) -> SqlError:
    hint = f"Values: {listed(texts)}."
    if close := _closest(text, texts):
        hint = f"Did you mean '{close}'? {hint}"
    return source.refuse(wrong, node, hint=hint)


def code_mask(attribute: Attribute, node: exp.Expr, source: SqlText) -> int | None:
    """The mask of the label of an unquoted number or boolean; None for another node.

    Raises:
        SqlError: there are codes, and no label has this one.
    """
    if isinstance(node, exp.Boolean):
        code: str | bool = bool(node.this)
    else:
        number = constant(node, source)
        if number is None:
            return None
        code = decimal_text(number)
    index = attribute.index_of_code(code)
    if index is not None:
        return 1 << index
    if not attribute.codes:
        return None
    shown = ", ".join(f"'{label[:40]}'" for label in attribute.value_names[:3])
    raise source.refuse(
        f"compare `{attribute.name}` with its codes: no label has this one",
        node,
        hint=f"Its codes: {listed(attribute.codes)}. Labels stand in quotes, such as {shown}.",
    )


def quoted(name: str) -> str:
    """A name in the notation of SQL."""
    return name if name.isidentifier() else f'"{name}"'


def _one_of(names: tuple[str, ...], identifier: exp.Identifier) -> str | None:
    """The matching name; unquoted, capitals may differ if only one fits."""
    if identifier.name in names:
        return identifier.name
    folded = [name for name in names if is_same(name, identifier)]
    return folded[0] if len(folded) == 1 else None


def is_same(name: str, identifier: exp.Identifier) -> bool:
    """Whether a name matches the written one; quoted names need the same capitals."""
    if identifier.quoted:
        return name == identifier.name
    return name.lower() == identifier.name.lower()


def _closest(name: str, names: tuple[str, ...]) -> str:
    by_fold = {n.lower(): n for n in names[:_MOST_COMPARED]}
    found = get_close_matches(name[:64].lower(), by_fold, n=1, cutoff=0.75)
    return by_fold[found[0]] if found else ""


def listed(names: tuple[str, ...]) -> str:
    """Some names, and the number of further ones."""
    shown = ", ".join(n[:40] for n in names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return shown + (f" and {more} more" if more > 0 else "")


def no_column(node: exp.Expr, table: str, names: Sequence[str], source: SqlText) -> SqlError:
    """The error of a name that no column of a SELECT has; `table` or ''."""
    which = f"`{table}`" if table else "the SELECT that it reads"
    shown = ", ".join(name[:40] for name in names[:_MOST_SHOWN])
    return source.refuse(
        f"name a column of {which}, got `{node.name[:40]}`",
        node,
        hint=f"Columns: {shown}." if shown else "",
    )


def constant(node: exp.Expr, source: SqlText) -> Fraction | None:
    """The value of an expression without attributes and aggregates, else None.

    Raises:
        SqlError: a number is out of range, or divided by zero.
    """
    found = _value(node, source)
    if found is None:
        return None
    if abs(found) > MAX_MAGNITUDE or found.denominator > MAX_DENOMINATOR:
        raise source.refuse("hold numbers up to 10^12 in size, to nine decimals", node)
    return found


def _value(node: exp.Expr, source: SqlText) -> Fraction | None:
    if isinstance(node, exp.Literal):
        try:
            return None if node.is_string else exact_number(node.this, "sql")
        except QueryError as exc:
            raise source.refuse(exc.condition, node) from exc
    if isinstance(node, exp.Paren):
        return constant(node.this, source)
    if isinstance(node, exp.Neg):
        inner = constant(node.this, source)
        return None if inner is None else -inner
    calculate = _OPERATORS.get(type(node))
    left = None if calculate is None else constant(node.this, source)
    right = None if left is None else constant(node.expression, source)
    if calculate is None or left is None or right is None:
        return None
    if calculate is operator.truediv and right == 0:
        raise source.refuse("not divide by zero", node)
    return calculate(left, right)

"""Functions of a label: what UPPER, LEFT, SUBSTRING, || and their like make of its text.

Labels are public, so each is a table from labels to texts, or to numbers for LENGTH. None stands
for NULL, of which they make NULL; but for CONCAT, which leaves it out, and COALESCE.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from qserver.query.sql.attributes import constant
from qserver.query.sql.text import SqlText

_TEXTS = (
    exp.Upper,
    exp.Lower,
    exp.Initcap,
    exp.Trim,
    exp.Left,
    exp.Right,
    exp.Substring,
    exp.Replace,
    exp.Concat,
    exp.DPipe,
)
_NUMBERS = (exp.Length, exp.StrPosition)
_OF_NULL = (exp.Coalesce, exp.Nullif)
_CAPITALS: dict[type[exp.Expr], Callable[[str], str]] = {
    exp.Upper: str.upper,
    exp.Lower: str.lower,
    exp.Initcap: str.title,
}
# Nested REPLACE and || could make texts of any length.
MOST_CHARACTERS = 4096


def is_of_labels(node: exp.Expr) -> bool:
    """Whether an expression is such a function of an attribute."""
    return isinstance(node, (*_TEXTS, *_NUMBERS, *_OF_NULL)) and node.find(exp.Column) is not None


def is_fixed(node: exp.Expr) -> bool:
    """Whether it is one of these functions of texts that the text has, such as LOWER('A')."""
    return isinstance(node, _TEXTS) and not node.find(exp.Column, exp.AggFunc, exp.Subquery)


def is_joined(node: exp.Expr) -> bool:
    """Whether it puts texts one after the other: `a || b` or CONCAT(a, b)."""
    return isinstance(node, exp.Concat | exp.DPipe)


def joined_parts(node: exp.Expr) -> list[exp.Expr]:
    """The texts that such an expression puts one after the other."""
    if isinstance(node, exp.Concat):
        return [part.unnest() for part in node.expressions]
    return [part.unnest() for part in node.flatten()]


def value_of(node: exp.Expr, label: str | None, source: SqlText) -> str | int | None:
    """What an expression is where its column has this label.

    Raises:
        SqlError: it has a part that is no function of labels, or makes too long a text.
    """
    node = node.unnest()
    match node:
        case exp.Null():
            return None
        case exp.Coalesce():
            values = (value_of(part, label, source) for part in (node.this, *node.expressions))
            return next((value for value in values if value is not None), None)
        case exp.Nullif():
            found = value_of(node.this, label, source)
            return None if found == value_of(node.expression, label, source) else found
        case exp.Length():
            text = _text(node.this, label, source)
            return None if text is None else len(text)
        case exp.StrPosition():
            text, part = (_text(one, label, source) for one in (node.this, node.args["substr"]))
            return None if text is None or part is None else text.find(part) + 1
        case exp.Literal() if not node.is_string:
            return _whole(node, source)
    return _text(node, label, source)


def _text(node: exp.Expr, label: str | None, source: SqlText) -> str | None:
    found = _changed(node.unnest(), label, source)
    if found is not None and len(found) > MOST_CHARACTERS:
        raise source.refuse(f"make texts of at most {MOST_CHARACTERS:,} characters", node)
    return found


def _changed(node: exp.Expr, label: str | None, source: SqlText) -> str | None:
    if isinstance(node, exp.Column):
        return label
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    if isinstance(node, (exp.Null, *_OF_NULL)):
        found = value_of(node, label, source)
        if isinstance(found, int):
            raise source.refuse("give texts here", node)
        return found
    parts = [_text(part, label, source) for part in _parts(node, source)]
    if isinstance(node, exp.Concat):
        return "".join(part for part in parts if part is not None)
    known = [part for part in parts if part is not None]
    return _made(node, known, source) if len(known) == len(parts) else None


def _parts(node: exp.Expr, source: SqlText) -> list[exp.Expr]:
    """The texts that a function is of."""
    match node:
        case exp.Trim() if not node.args.get("expression") and not node.args.get("position"):
            return [node.this]
        case exp.Upper() | exp.Lower() | exp.Initcap() | exp.Left() | exp.Right():
            return [node.this]
        case exp.Substring():
            return [node.this]
        case exp.Replace():
            return [node.this, node.expression, node.args["replacement"]]
        case exp.Concat() | exp.DPipe():
            return joined_parts(node)
    raise source.refuse(
        "use functions of labels alone here: UPPER, LOWER, INITCAP, TRIM, LEFT, RIGHT, SUBSTRING, "
        "REPLACE, CONCAT, ||, COALESCE and NULLIF",
        node,
        hint="Nearest: CASE WHEN a IN ('x', 'y') THEN 'z' ELSE a END.",
    )


def _made(node: exp.Expr, of: list[str], source: SqlText) -> str:
    """What a function makes of its texts."""
    if (capitals := _CAPITALS.get(type(node))) is not None:
        return capitals(of[0])
    match node:
        case exp.Trim():
            return of[0].strip(" ")
        case exp.Left() | exp.Right():
            return _end(of[0], _whole(node.expression, source), node)
        case exp.Substring():
            return _substring(of[0], node, source)
        case exp.Replace():
            return _replaced(*of)
    return "".join(of)


def _replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _end(text: str, n: int, node: exp.Expr) -> str:
    """The first n characters, or the last; a negative n leaves so many out, as in PostgreSQL."""
    if isinstance(node, exp.Left):
        return text[:n]
    if n < 0:
        return text[-n:]
    return text[max(len(text) - n, 0) :]


def _substring(text: str, node: exp.Substring, source: SqlText) -> str:
    start = node.args.get("start")
    length = node.args.get("length")
    first = 1 if start is None else _whole(start, source)
    stop = len(text) if length is None else first - 1 + _whole(length, source)
    return text[max(first - 1, 0) : max(stop, 0)]


def _whole(node: exp.Expr, source: SqlText) -> int:
    number = constant(node, source)
    if number is None or number.denominator != 1 or abs(number) > Fraction(MOST_CHARACTERS):
        raise source.refuse("give a whole number of characters", node)
    return int(number)

"""The parts of a UNION ALL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from qserver.errors import CapacityError
from qserver.query.sql.text import SqlText

MOST_PARTS = 64


@dataclass(frozen=True)
class Union:
    """SELECTs whose rows stand one after the other.

    Args:
        parts: with each the WITHs that it may read, from the outermost.
        whole: what holds ORDER BY, LIMIT and OFFSET of all rows; None for one SELECT.
    """

    parts: tuple[tuple[exp.Select, tuple[exp.With, ...]], ...]
    whole: exp.Expr | None = None


def union_of(root: exp.Expr, source: SqlText) -> Union:
    """The parts of a text.

    Raises:
        SqlError: it is no SELECT, or joins them by another word than UNION ALL.
        CapacityError: there are too many.
    """
    parts = tuple(_parts(root, (), source, is_whole=True))
    if len(parts) > MOST_PARTS:
        raise CapacityError(f"UNION ALL joins at most {MOST_PARTS} SELECTs. Ask its parts.")
    return Union(parts, root if isinstance(root, exp.Union) else None)


def _parts(
    node: exp.Expr, scope: tuple[exp.With, ...], source: SqlText, *, is_whole: bool
) -> Iterator[tuple[exp.Select, tuple[exp.With, ...]]]:
    if isinstance(node, exp.Subquery) and not _others(node, {"this"}):
        node = node.this
    if isinstance(node, exp.Select):
        yield node, scope
        return
    if not isinstance(node, exp.Union):
        raise source.refuse("be one SELECT", node)
    if node.args.get("distinct"):
        raise source.refuse(
            "say ALL after UNION: released numbers of the same rows differ",
            node.expression,
            hint="Nearest: UNION ALL.",
        )
    if not is_whole and _others(node, {"this", "expression", "distinct"}):
        raise source.refuse("order and cut all rows of a UNION at once, at its end", node)
    inner = node.args.get("with_")
    scope = scope if inner is None else (*scope, inner)
    yield from _parts(node.this, scope, source, is_whole=False)
    yield from _parts(node.expression, scope, source, is_whole=False)


def _others(node: exp.Expr, known: set[str]) -> set[str]:
    return {key for key, value in node.args.items() if value} - known

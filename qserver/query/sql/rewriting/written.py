"""How the items of each SELECT of a text are written: the names of columns without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from sqlglot import Token, TokenType, exp

from qserver.query.sql.tables.exactness import UNSAID, Exactness, exactness_of
from qserver.query.sql.text import TextPlace
from qserver.query.sql.tokens import TokenizedSql

_WRITTEN = "written"
_EXACTNESS = "exactness"
_STOP = "stop"
_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_ENDS = (TokenType.FROM, TokenType.UNION)
# The order in which the parts of a SELECT stand in a text, after WITH.
_ORDER = ("expressions", "from_", "joins", "where", "group", "having", "order")


def note_items(sql: TokenizedSql, root: exp.Expr) -> None:
    """Note at each item of each SELECT how it is written, for `written_of`.

    Raises:
        SqlError: there is a comma too much, which the parser accepts.
    """
    starts = [i for i, token in enumerate(sql.body) if token.token_type is TokenType.SELECT]
    for start, select in zip(starts, _selects(root), strict=False):
        places = _places(sql.body, start)
        if len(places) != len(select.expressions):
            raise sql.source.refuse("have one item between commas", sql.body[start])
        for node, place in zip(select.expressions, places, strict=True):
            node.meta[_WRITTEN] = sql.source.source(place)
            node.meta[_STOP] = place.stop
            if behind := sql.behind_items.get(place.start):
                node.meta[_EXACTNESS] = exactness_of(sql.source, behind)


def written_of(node: exp.Expr) -> str:
    """How an item is written; '' where that was not noted."""
    return str(node.meta.get(_WRITTEN, ""))


def keep_written(node: exp.Expr, before: exp.Expr) -> exp.Expr:
    """An item in place of another one, which is written the same."""
    for key in (_WRITTEN, _EXACTNESS, _STOP):
        if key in before.meta:
            node.meta[key] = before.meta[key]
    return node


def exactness_behind(node: exp.Expr) -> Exactness:
    """What WITHIN and CONFIDENCE behind an item say."""
    return cast("Exactness", node.meta.get(_EXACTNESS, UNSAID))


def stop_of(node: exp.Expr) -> int | None:
    """Where an item ends in the text, its name included; None where that was not noted."""
    return cast("int | None", node.meta.get(_STOP))


def _selects(node: exp.Expr) -> Iterator[exp.Select]:
    """All SELECTs in the order of the text."""
    first = node.args.get("with_")
    if first is not None:
        yield from _selects(first)
    order = _ORDER if isinstance(node, exp.Select) else ()
    if isinstance(node, exp.Select):
        yield node
    for key in (*order, *(k for k in node.args if k not in order and k != "with_")):
        part = node.args.get(key)
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, exp.Expr):
                yield from _selects(one)


def _places(body: Sequence[Token], start: int) -> list[TextPlace]:
    """The places of the items after the SELECT at `start`."""
    places: list[TextPlace] = []
    depth, first = 0, start + 1
    if first < len(body) and body[first].token_type is TokenType.DISTINCT:
        first += 1
    for i in range(first, len(body) + 1):
        kind = body[i].token_type if i < len(body) else TokenType.FROM
        compares = i > first and body[i - 1].token_type is TokenType.DISTINCT
        is_end = depth == 0 and (kind in _ENDS or kind is TokenType.R_PAREN) and not compares
        if is_end or (depth == 0 and kind is TokenType.COMMA):
            if i > first:
                places.append(TextPlace(body[first].start, body[i - 1].end + 1))
            elif kind is TokenType.COMMA or places:
                # Nothing between: counted, so that the numbers of items differ.
                places += [TextPlace(body[first - 1].start, body[first - 1].end + 1)] * 2
            first = i + 1
        if is_end:
            break
        depth += _DEPTH.get(kind, 0)
    return places

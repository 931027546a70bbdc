"""The columns of each SELECT of a text: how they are written, and what their names stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import Token, TokenType, exp

from qserver.errors import CapacityError
from qserver.query.sql.attributes import is_same, no_column
from qserver.query.sql.clauses import UNSAID, Exactness, exactness_of
from qserver.query.sql.text import SqlText, TextPlace
from qserver.query.sql.tokens import TokenizedSql

_ITEM = "item"
_CAST = "cast"
_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_ENDS = (TokenType.FROM, TokenType.UNION)
# The order in which the parts of a SELECT stand in a text, after WITH.
_ORDER = ("expressions", "from_", "joins", "where", "group", "having", "order")


@dataclass(frozen=True)
class Written:
    """How an item of SELECT is written.

    Args:
        text: '' where it was not noted.
        stop: where it ends in the text, its name included; None where that was not noted.
        exactness: what WITHIN and CONFIDENCE behind it say.
    """

    text: str = ""
    stop: int | None = None
    exactness: Exactness = UNSAID


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
            exactness = exactness_of(sql.source, sql.behind_items.get(place.start, ()))
            node.meta[_ITEM] = Written(sql.source.source(place), place.stop, exactness)


def written_of(node: exp.Expr) -> Written:
    """How an item is written."""
    return cast("Written", node.meta.get(_ITEM, Written()))


def keep_written(node: exp.Expr, before: exp.Expr) -> exp.Expr:
    """An item in place of another one, which is written the same."""
    if _ITEM in before.meta:
        said, own = written_of(before), written_of(node).exactness
        node.meta[_ITEM] = replace(said, exactness=own) if said.exactness == UNSAID else said
    return node


def keep_cast(node: exp.Expr, cast: exp.Cast) -> exp.Expr:
    """A value in place of its cast, which changes it in no way but its type."""
    node.meta[_CAST] = cast.to
    return node


def cast_to(node: exp.Expr) -> exp.DataType | None:
    """The type to which a value was cast; None for none."""
    to: exp.DataType | None = node.meta.get(_CAST)
    return to


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


MOST_NODES = 1 << 15
PLACE = ("line", "col", "start", "end")


@dataclass(frozen=True)
class Output:
    """The columns that a SELECT gives to the one that reads it.

    Args:
        name: what that one calls it; '' for no name.
        columns: names and what they stand for.
        gives_all: whether it also gives each attribute by its own name.
    """

    name: str
    columns: tuple[tuple[str, exp.Expr], ...]
    gives_all: bool

    def of(self, name: exp.Identifier) -> exp.Expr | None:
        """What a name stands for; None where no column has it."""
        return next((node for known, node in self.columns if is_same(known, name)), None)


@dataclass
class Renaming:
    """Puts what names stand for in their place, within a limit on work.

    Args:
        left: how many parts of expressions may still be written.
    """

    source: SqlText
    left: int = field(default=MOST_NODES)

    def through(
        self,
        node: exp.Expr,
        output: Output,
        *,
        alias: Callable[[exp.Column], exp.Expr | None] | None = None,
    ) -> exp.Expr:
        """An expression in terms of what the inner SELECT reads; a new one.

        Args:
            alias: what a name means that no column has.

        Raises:
            SqlError: it names no column of the inner SELECT.
            CapacityError: it becomes too long.
        """
        return self._replaced(node, lambda column: self._meant(column, output, alias))

    def _replaced(self, node: exp.Expr, of: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
        """A copy with each column replaced; a SELECT inside is left as it is."""
        found = self.copied(node)
        for part in list(found.walk(prune=lambda one: isinstance(one, exp.Subquery))):
            if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                meant = of(part)
                if part is found:
                    return meant
                part.replace(meant)
        return found

    def copied(self, node: exp.Expr) -> exp.Expr:
        """A copy, within the limit on work; raises as `through` does."""
        for _ in node.walk():
            self._take()
        return node.copy()

    def _meant(
        self,
        column: exp.Column,
        output: Output,
        alias: Callable[[exp.Column], exp.Expr | None] | None,
    ) -> exp.Expr:
        table, name = column.args.get("table"), column.this
        if table is not None and table.name.lower() != output.name.lower():
            shown = f"`{output.name}`, " if output.name else ""
            raise self.source.refuse(f"name {shown}or nothing, before a dot", table)
        found = output.of(name)
        if found is not None:
            return self._placed(found, name)
        if alias is not None and table is None and (meant := alias(column)) is not None:
            return self._placed(meant, name)
        if output.gives_all:
            return exp.Column(this=self._placed(name, name))
        raise no_column(name, output.name, [known for known, _ in output.columns], self.source)

    def _placed(self, node: exp.Expr, at: exp.Identifier) -> exp.Expr:
        """A copy of what a name stands for; faults in it point at the name."""
        place = {key: at.meta[key] for key in PLACE if key in at.meta}
        found = keep_written(self.copied(node), node)
        for part in found.walk():
            self._take()
            for key in PLACE:
                part.meta.pop(key, None)
            if isinstance(part, exp.Identifier | exp.Literal | exp.Func | exp.Star):
                part.meta.update(place)
        return found

    def _take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise CapacityError("The SELECTs in this text repeat one another too often. Ask parts.")

"""SELECT's items, their texts and names, HAVING and LIMIT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import Token, TokenType, exp

from qserver.errors import CapacityError
from qserver.query.sql.attributes import Names, constant, is_same, no_column
from qserver.query.sql.exactness import UNSAID, Exactness, exactness_of
from qserver.query.sql.logic import of_two
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
    """The written form of an item of SELECT.

    Args:
        text: '' if not noted.
        stop: its end in the text, name included; None if not noted.
        exactness: by WITHIN and CONFIDENCE behind it.
    """

    text: str = ""
    stop: int | None = None
    exactness: Exactness = UNSAID


def note_items(sql: TokenizedSql, root: exp.Expr) -> None:
    """Note the written form at each item of each SELECT, for `written_of`.

    Raises:
        SqlError: there is an extra comma, which the parser accepts.
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
    """The written form of an item."""
    return cast("Written", node.meta.get(_ITEM, Written()))


def keep_written(node: exp.Expr, before: exp.Expr) -> exp.Expr:
    """Replace an item by another with the same written form."""
    if _ITEM in before.meta:
        said, own = written_of(before), written_of(node).exactness
        node.meta[_ITEM] = replace(said, exactness=own) if said.exactness == UNSAID else said
    return node


def keep_cast(node: exp.Expr, cast: exp.Cast) -> exp.Expr:
    """Replace a cast by its value, whose type alone it changes."""
    node.meta[_CAST] = cast.to
    return node


def cast_to(node: exp.Expr) -> exp.DataType | None:
    """The type of a value's cast, or None."""
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
    """The columns of a SELECT for its reader.

    Args:
        name: the reader's name for it, or ''.
        columns: names with their expressions.
        gives_all: whether it also gives each attribute by its own name.
    """

    name: str
    columns: tuple[tuple[str, exp.Expr], ...]
    gives_all: bool

    def of(self, name: exp.Identifier) -> exp.Expr | None:
        """The expression of a name; None if no column has it."""
        return next((node for known, node in self.columns if is_same(known, name)), None)


@dataclass
class Renaming:
    """Replaces names by their expressions, within a limit on work.

    Args:
        left: number of expression parts left.
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
        """A new expression in terms of the inner SELECT's sources.

        Args:
            alias: meaning of a name that no column has.

        Raises:
            SqlError: it names no column of the inner SELECT.
            CapacityError: it becomes too long.
        """
        return self._replaced(node, lambda column: self._meant(column, output, alias))

    def _replaced(self, node: exp.Expr, of: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
        """A copy with each column replaced, except inside a SELECT."""
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
        """A copy of a name's expression; errors point at the name."""
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


# Each part is compared with each item of SELECT.
MOST_PARTS = 32
MOST_ITEMS = 1000 + MOST_PARTS


def check_parts(n: int, what: str) -> None:
    """CapacityError if a clause has too many parts."""
    if n > MOST_PARTS:
        raise CapacityError(f"{what} has at most {MOST_PARTS} parts, this one {n:,}.")


@dataclass(frozen=True)
class Item:
    """An item of SELECT.

    Args:
        node: without its alias.
        alias: the name after AS; '' for none.
        text: as written.
        exactness: by WITHIN and CONFIDENCE behind it.
        stop: its end in the text, or None.
    """

    node: exp.Expr
    alias: str
    text: str
    exactness: Exactness = UNSAID
    stop: int | None = None

    @property
    def name(self) -> str:
        """The name of its column."""
        return self.alias or self.text


@dataclass(frozen=True)
class Items:
    """All items of SELECT, in order."""

    source: SqlText
    found: tuple[Item, ...]

    def at_position(self, node: exp.Expr) -> int | None:
        """The index of the item at a position; None if `node` is not a number.

        Raises:
            SqlError: there is no item at this position.
        """
        if not isinstance(node, exp.Literal) or node.is_string:
            return None
        position = int(node.this) if node.this.isdecimal() and len(node.this) < 9 else 0
        if not 1 <= position <= len(self.found):
            raise self.source.refuse(
                f"give a position from 1 to {len(self.found)}, an item of SELECT", node
            )
        return position - 1

    def of_alias(self, node: exp.Expr) -> int | None:
        """The index of the item with this alias; None for none.

        Raises:
            SqlError: several have it.
        """
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return None
        name = node.this
        if not isinstance(name, exp.Identifier):
            return None
        named = enumerate(self.found)
        same = [i for i, item in named if item.alias and is_same(item.alias, name)]
        if len(same) > 1:
            raise self.source.refuse("give its items names of their own", node)
        return same[0] if same else None

    def same_as(self, node: exp.Expr) -> int | None:
        """The index of the item that is written the same; None for none."""
        return next((i for i, item in enumerate(self.found) if item.node == node), None)


def written(node: exp.Expr, source: SqlText) -> str:
    """An expression as the text has it."""
    text = source.source(node)
    # The place of a call ends before its last parenthesis.
    return text + ")" * (text.count("(") - text.count(")"))


def items_of(source: SqlText, select: exp.Select) -> Items:
    """The items of a SELECT; CapacityError if there are too many."""
    if len(select.expressions) > MOST_ITEMS:
        raise CapacityError(f"SELECT has at most {MOST_ITEMS:,} items. Ask its parts.")
    found = (
        Item(
            (node.this if isinstance(node, exp.Alias) else node).unnest(),
            node.alias if isinstance(node, exp.Alias) else "",
            written_of(node).text or written(node, source),
            written_of(node).exactness,
            written_of(node).stop,
        )
        for node in select.expressions
    )
    return Items(source, tuple(found))


MOST_ROWS = 10**9


@dataclass(frozen=True)
class Cut:
    """LIMIT and OFFSET; a limit of None shows all."""

    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Having:
    """HAVING, split into public conditions on groups and others."""

    public: tuple[exp.Expr, ...] = ()
    others: tuple[exp.Expr, ...] = ()

    @classmethod
    def of(cls, select: exp.Select, names: Names) -> Having:
        """The HAVING of a SELECT."""
        having = select.args.get("having")
        if having is None:
            return cls()
        n_tests = sum(isinstance(part, exp.Predicate) for part in having.this.walk())
        check_parts(n_tests, "HAVING")
        whole = having.this.unnest()
        parts = list(whole.flatten()) if isinstance(whole, exp.And) else [whole]
        public = [part for part in parts if _is_public(part, names)]
        return cls(tuple(public), tuple(part for part in parts if part not in public))

    def where(self, where: exp.Expr | None) -> exp.Expr | None:
        """WHERE and the conditions on groups, which decide the groups."""
        for part in self.public:
            where = part if where is None else of_two(exp.And, where, part)
        return where


def cut_of(select: exp.Expr, source: SqlText) -> Cut:
    """LIMIT or FETCH FIRST, and OFFSET.

    Raises:
        SqlError: they are not whole numbers, or ask for a percentage or for ties.
    """
    limit, offset = select.args.get("limit"), select.args.get("offset")
    found = None
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise source.refuse(
                "fetch a number of rows", limit, hint="Nearest: FETCH FIRST 5 ROWS ONLY."
            )
        count = limit.args.get("count")
        found = 1 if count is None else _whole(count, source, least=1)
    elif limit is not None:
        found = _whole(limit.expression, source, least=1)
    return Cut(found, 0 if offset is None else _whole(offset.expression, source, least=0))


def _whole(node: exp.Expr, source: SqlText, *, least: int) -> int:
    number = constant(node, source)
    if number is None or number.denominator != 1 or not least <= number <= MOST_ROWS:
        raise source.refuse(f"give a whole number of rows, at least {least}", node)
    return int(number)


def _is_public(node: exp.Expr, names: Names) -> bool:
    """Whether a condition is about attributes alone."""
    parts = list(node.walk())
    has_numbers = any(isinstance(part, exp.AggFunc) for part in parts)
    columns = [part for part in parts if isinstance(part, exp.Column)]
    return bool(columns) and not has_numbers and all(map(names.is_known, columns))

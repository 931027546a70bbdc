"""The items of SELECT: what they are called, and which of them another part of the text means."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import TokenType, exp

from qserver.errors import CapacityError
from qserver.query.sql.text import SqlText, TextPlace
from qserver.query.sql.tokens import TokenizedSql

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
        node: what it is, without its alias.
        alias: the name after AS; '' for none.
        text: how it is written.
    """

    node: exp.Expr
    alias: str
    text: str

    @property
    def name(self) -> str:
        """What its column is called."""
        return self.alias or self.text


@dataclass(frozen=True)
class Items:
    """All items of SELECT, in order."""

    source: SqlText
    found: tuple[Item, ...]

    def at_position(self, node: exp.Expr) -> int | None:
        """The index of the item that a whole number means; None if `node` is no number.

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
        same = [
            i
            for i, item in enumerate(self.found)
            if item.alias
            and (
                item.alias == name.name if name.quoted else item.alias.lower() == name.name.lower()
            )
        ]
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


def items_of(sql: TokenizedSql, select: exp.Select) -> Items:
    """The items of a SELECT.

    Raises:
        SqlError: there is a comma at the end, which the parser accepts.
        CapacityError: there are too many.
    """
    if len(select.expressions) > MOST_ITEMS:
        raise CapacityError(f"SELECT has at most {MOST_ITEMS:,} items. Ask its parts.")
    places = _places(sql)
    if len(places) != len(select.expressions):
        raise sql.source.refuse("have one item between commas", sql.body[0])
    found = (
        Item(
            (node.this if isinstance(node, exp.Alias) else node).unnest(),
            node.alias if isinstance(node, exp.Alias) else "",
            sql.source.source(place),
        )
        for node, place in zip(select.expressions, places, strict=True)
    )
    return Items(sql.source, tuple(found))


def _places(sql: TokenizedSql) -> list[TextPlace]:
    """The places of the items of SELECT in the text."""
    places: list[TextPlace] = []
    depth = 0
    start = 2 if len(sql.body) > 1 and sql.body[1].token_type is TokenType.DISTINCT else 1
    for i, token in enumerate(sql.body):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and token.token_type in (TokenType.COMMA, TokenType.FROM):
            places.append(TextPlace(sql.body[start].start, sql.body[i - 1].end + 1))
            start = i + 1
            if token.token_type is TokenType.FROM:
                break
    return places

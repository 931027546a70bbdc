"""The items of SELECT: what they are called, and which of them another part of the text means."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from qserver.errors import CapacityError
from qserver.query.sql.attributes import is_same
from qserver.query.sql.clauses import UNSAID, Exactness
from qserver.query.sql.select.columns import written_of
from qserver.query.sql.text import SqlText

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
        exactness: what WITHIN and CONFIDENCE behind it say.
        stop: where it ends in the text; None where that is not known.
    """

    node: exp.Expr
    alias: str
    text: str
    exactness: Exactness = UNSAID
    stop: int | None = None

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
    """The items of a SELECT.

    Raises:
        CapacityError: there are too many.
    """
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

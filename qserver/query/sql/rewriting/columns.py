"""Columns of a SELECT that another one reads: what each name stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.sql.rewriting.written import keep_written
from qserver.query.sql.text import SqlText

MOST_NODES = 1 << 15
_PLACE = ("line", "col", "start", "end")


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
        for known, node in self.columns:
            if known == name.name or (not name.quoted and known.lower() == name.name.lower()):
                return node
        return None


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

        def meant(column: exp.Column) -> exp.Expr:
            return self._meant(column, output, alias)

        return self.replaced(node, meant)

    def replaced(self, node: exp.Expr, of: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
        """A copy with each column replaced; a SELECT inside is left as it is."""
        self._take()
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return of(node)
        if isinstance(node, exp.Subquery):
            return self.copied(node)
        args = {key: self._part(value, of) for key, value in node.args.items()}
        found = type(node)(**args)
        found.meta.update(node.meta)
        return found

    def copied(self, node: exp.Expr) -> exp.Expr:
        """A copy, within the limit on work; raises as `through` does."""
        for _ in node.walk():
            self._take()
        return node.copy()

    def _part(self, value: object, of: Callable[[exp.Column], exp.Expr]) -> object:
        if isinstance(value, list):
            return [self._part(one, of) for one in value]
        return self.replaced(value, of) if isinstance(value, exp.Expr) else value

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
        raise self._unknown(name, output)

    def _placed(self, node: exp.Expr, at: exp.Identifier) -> exp.Expr:
        """A copy of what a name stands for; faults in it point at the name."""
        place = {key: at.meta[key] for key in _PLACE if key in at.meta}
        found = keep_written(self.copied(node), node)
        for part in found.walk():
            self._take()
            for key in _PLACE:
                part.meta.pop(key, None)
            if isinstance(part, exp.Identifier | exp.Literal | exp.Func | exp.Star):
                part.meta.update(place)
        return found

    def _take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise CapacityError("The SELECTs in this text repeat one another too often. Ask parts.")

    def _unknown(self, name: exp.Identifier, output: Output) -> SqlError:
        shown = ", ".join(known[:40] for known, _ in output.columns[:12])
        which = f"`{output.name}`" if output.name else "the SELECT that it reads"
        return self.source.refuse(
            f"name a column of {which}, got `{name.name[:40]}`",
            name,
            hint=f"Columns: {shown}." if shown else "",
        )

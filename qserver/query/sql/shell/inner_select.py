"""IN with a SELECT of groups, found by released numbers before the rest is asked.

The text lists all possible groups at first, then the chosen ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.sql.attributes import Names
from qserver.query.sql.exactness import Clauses
from qserver.query.sql.order_by import PLAIN
from qserver.query.sql.regions import Regions
from qserver.query.sql.shaping.inner_select import InnerSelect, Values
from qserver.query.sql.shaping.units_of_measure import COUNTS
from qserver.query.sql.shell.derived_table import Column
from qserver.query.sql.shell.records import Named
from qserver.query.sql.shell.selects import Shell
from qserver.query.sql.shell.table import Tables, is_whole
from qserver.query.sql.statement import Cell, Statement, Sum
from qserver.query.sql.text import CHOOSES

_JOINING = exp.And | exp.Or | exp.Paren
_CLAUSES = exp.Where | exp.Filter | exp.Having | exp.Qualify


def written_out(
    root: exp.Expr,
    names: Names,
    dataset: str,
    clauses: Clauses,
    chosen: Sequence[Values] = (),
) -> tuple[InnerSelect[Statement], ...]:
    """The SELECTs of groups behind IN, each replaced by a list of values.

    Args:
        chosen: the values of each; the widest by default. A SELECT of public groups, or without a
            choice by numbers, stays as it is.

    Raises:
        SqlError: one cannot be answered; points at the place.
        CapacityError: one asks too much.
    """
    nodes = [node for node in root.find_all(exp.In, exp.EQ, exp.NEQ) if _query_of(node) is not None]
    inside = {id(part) for node in nodes for part in _parts_of(node)}
    nodes = [node for node in nodes if id(node) not in inside]
    read = [(node, _Reader(node, names, dataset, clauses).read()) for node in nodes]
    found = [(node, one) for node, one in read if one is not None]
    if found and clauses.at_most is not None:
        raise names.source.refuse(
            "have no AT MOST with a SELECT behind IN",
            names.source.end,
            hint="Ask the inner SELECT first, and write its groups: IN ('a', 'b').",
        )
    sets = chosen or [one.widest for _, one in found]
    for (node, one), values in zip(found, sets, strict=True):
        listed = [_written(value, node) for value in one.values if value in values]
        # One row that is not there is NULL, and a list without values false.
        nothing = exp.null() if chosen and _is_one_row(node) else exp.false()
        unique = list(dict.fromkeys(listed))
        found_in = exp.In(this=node.this, expressions=unique) if unique else nothing
        node.replace(exp.Not(this=found_in) if isinstance(node, exp.NEQ) else found_in)
    return tuple(one for _, one in found)


def _query_of(node: exp.Expr) -> exp.Expr | None:
    """The SELECT behind IN, = ANY and <> ALL, and behind = and <> where it gives one row."""
    if isinstance(node, exp.In):
        query = node.args.get("query")
    else:
        query, of_all = node.args["expression"], exp.All if isinstance(node, exp.NEQ) else exp.Any
        if isinstance(query, of_all):
            query = query.this
        elif not _is_one_row(node):
            return None
    query = query.this if isinstance(query, exp.Subquery) else query
    return query if isinstance(query, exp.Query) else None


def _is_one_row(node: exp.Expr) -> bool:
    """Whether a value is compared with the only row of a SELECT."""
    query = None if isinstance(node, exp.In) else node.args["expression"]
    if not isinstance(query, exp.Subquery):
        return False
    limit = query.this.args.get("limit")
    return limit is not None and limit.args.get("expression") == exp.Literal.number(1)


def _parts_of(node: exp.Expr) -> list[exp.Expr]:
    query = _query_of(node)
    return [] if query is None else list(query.walk())


def _written(value: str | None, node: exp.Expr) -> exp.Expr:
    """A value; errors about it point at the SELECT."""
    found: exp.Expr = exp.null() if value is None else exp.Literal.string(value)
    at = next((part.meta for part in node.walk() if "start" in part.meta), {})
    found.meta.update(at)
    return found


@dataclass(frozen=True)
class _Reader:
    """Reads one of them."""

    node: exp.Expr
    names: Names
    dataset: str
    clauses: Clauses

    def read(self) -> InnerSelect[Statement] | None:
        """The SELECT; None if no number chooses its groups. Raises as `written_out` does."""
        query = _query_of(self.node)
        assert query is not None  # noqa: S101 - the caller chose it so
        names = replace(self.names)
        shell = Shell(names, self.dataset, Regions(names.domain.sizes))
        tables = Tables(shell)
        shell.counts = tables.counted
        env = self._env(shell)
        if isinstance(self.node.this.unnest(), exp.Tuple):
            raise self._refused("compare one value with a SELECT behind IN", self.node.this)
        nested = next((p for p in query.find_all(exp.In) if p.args.get("query") is not None), None)
        if nested is not None:
            raise self._refused(
                "have no SELECT within one behind IN",
                nested,
                hint="Ask the innermost SELECT first, and write its groups: IN ('a', 'b').",
            )
        if shell.records.is_of_records(Named("", query, env)):
            return None
        relation = shell.relation(query, env)
        listed = [column for column in relation.columns if not column.is_extra]
        if relation.is_plain:
            return None
        if len(listed) != 1 or not _is_group(listed[0]):
            raise self._refused("select one group in a SELECT behind IN", query)
        is_first = relation.limit is None or (relation.keys and relation.keys[0].is_number)
        if relation.firsts or relation.offset or relation.shown or not is_first:
            raise self._refused(
                "choose groups by HAVING, or by ORDER BY a number and LIMIT, behind IN", query
            )
        part = tables.part(relation)
        self._check(part, query)
        return self._inner(part)

    def _env(self, shell: Shell) -> Mapping[str, Named]:
        """The named tables of the SELECT."""
        found, env = list[exp.With](), dict[str, Named]()
        at = self.node.parent
        while at is not None:
            if (one := at.args.get("with_")) is not None:
                found.append(one)
            at = at.parent
        for one in reversed(found):
            env = dict(shell.records.scope(one, env))
        return env

    def _check(self, part: Statement, query: exp.Expr) -> None:
        if not part.rows:
            raise self._refused("leave some group in a SELECT behind IN", query, hint="")
        if any(unit != COUNTS for unit in part.units) or part.exactness:
            raise self._refused("choose groups by counts of records in a SELECT behind IN", query)
        if any(row.together for row in part.rows):
            raise self._refused("group without ROLLUP in a SELECT behind IN", query)

    def _is_positive(self) -> bool:
        """Whether NULL acts as false here."""
        at = self.node.parent
        while isinstance(at, _JOINING):
            at = at.parent
        return isinstance(at, _CLAUSES) and not isinstance(self.node, exp.NEQ)

    def _inner(self, part: Statement) -> InnerSelect[Statement]:
        said = self.clauses
        statement = replace(
            part,
            clauses=Clauses(
                said.half_width,
                said.confidence,
                assuming=said.assuming,
                measure=said.measure,
                part=said.part,
                as_of=said.as_of,
            ),
            shape=PLAIN,
            remarks=(),
        )
        group = part.places[0][0] or 0
        each = [[row.cells[k] for row in part.rows] for k in range(len(part.columns))]
        return InnerSelect(
            statement,
            tuple(row.group[group] for row in part.rows),
            # As in SQL, NULL is a group as others are.
            replace(part.shape, unnamed=frozenset()),
            tuple(all(map(_is_count, cells)) for cells in each),
            tells_null=not self._is_positive(),
        )

    def _refused(self, condition: str, at: exp.Expr, *, hint: str = CHOOSES) -> SqlError:
        return self.names.source.refuse(condition, at, hint=hint)


def _is_group(column: Column) -> bool:
    return not column.is_number and column.rank is None


def _is_count(cell: Cell) -> bool:
    return isinstance(cell, Sum) and not cell.offset and is_whole(cell.query)

"""UNION ALL: the rows of several SELECTs in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from qserver.errors import CapacityError
from qserver.query.sql.exactness import UNSAID
from qserver.query.sql.select import cut_of
from qserver.query.sql.shell.derived_table import PLACE, Column, Reader, Relation, SortBy, called
from qserver.query.sql.shell.engine_sql import aliased, is_null, ordered
from qserver.query.sql.shell.records import Named, others_of

MOST_PARTS = 64


def union_of(shell: Reader, node: exp.Union, env: Mapping[str, Named]) -> Relation:
    """The rows of a UNION ALL.

    Raises:
        SqlError: its parts do not fit, or choose among their numbers.
        CapacityError: there are too many.
    """
    return _Union(shell).whole(node, env)


class _Union:
    def __init__(self, shell: Reader) -> None:
        self._shell, self._source = shell, shell.source
        self._differs: exp.Expr | None = None

    def whole(self, node: exp.Union, env: Mapping[str, Named]) -> Relation:
        """The rows of all parts, ordered and cut; raises as `union_of` does."""
        parts = self._parts(node, env, is_whole=True)
        if len(parts) > MOST_PARTS:
            raise CapacityError(f"UNION ALL joins at most {MOST_PARTS} SELECTs. Ask its parts.")
        first = parts[0]
        columns = [c for c in first.columns if not c.is_extra]
        for one in parts:
            self._check_part(one, columns)
        ids = [self._shell.next_id() for _ in columns]
        totals = {
            k: self._shell.next_id()
            for k in range(len(columns))
            if any(listed_of(one)[k].together is not None for one in parts)
        }
        queries = [self._part(one, i, ids, totals) for i, one in enumerate(parts)]
        query: exp.Expr = queries[0]
        for other in queries[1:]:
            query = exp.Union(this=query, expression=other, distinct=False)
        digits = [
            c.digits if all(listed_of(one)[k].digits == c.digits for one in parts) else None
            for k, c in enumerate(columns)
        ]
        found = tuple(
            replace(
                c,
                id=ids[k],
                node=exp.column(called(ids[k])),
                together=totals.get(k),
                course=(),
                is_period=_are_periods(parts, k),
                digits=digits[k],
                order=None,
                is_merged=False,
            )
            for k, c in enumerate(columns)
        )
        hidden = tuple(Column(exp.column(called(id_)), id=id_) for id_ in totals.values())
        whole = Relation(query, found, hidden, differs=self._differs, at=first.at)
        return self._cut_union(node, whole)

    def _cut_union(self, node: exp.Union, whole: Relation) -> Relation:
        order, cut = node.args.get("order"), cut_of(node, self._source)
        if order is None and cut.limit is None and not cut.offset:
            return whole
        keys, hidden = list[SortBy](), list(whole.hidden)
        for one in [] if order is None else order.expressions:
            column = self._union_key(one.this.unnest(), whole)
            descending, nulls = bool(one.args.get("desc")), bool(one.args.get("nulls_first"))
            if column.is_number:
                keys.append(SortBy(column.id, True, descending, nulls))
                continue
            # Groups stand in the order of their first coming.
            place = exp.Window(
                this=exp.Min(this=exp.column(PLACE)),
                partition_by=[exp.column(column.sql)],
                over="OVER",
            )
            is_none = exp.If(this=is_null(exp.column(column.sql)), true=exp.null())
            rank = Column(exp.Case(ifs=[is_none], default=place), id=self._shell.next_id())
            hidden.append(rank)
            keys.append(SortBy(rank.id, False, descending, nulls))
        names = [c.sql for c in (*whole.columns, *whole.hidden)]
        inner = aliased(whole.query, "u")
        parts: list[exp.Expr] = [exp.column(name) for name in (*names, PLACE)]
        parts += [exp.alias_(c.node, c.sql) for c in hidden[len(whole.hidden) :]]
        query = exp.Select(expressions=parts).from_(inner)
        return ordered(
            replace(
                whole,
                query=query,
                hidden=tuple(hidden),
                keys=tuple(keys),
                limit=cut.limit,
                offset=cut.offset,
            )
        )

    def _union_key(self, by: exp.Expr, whole: Relation) -> Column:
        if isinstance(by, exp.Literal) and by.is_int and 1 <= int(by.name) <= len(whole.columns):
            return whole.columns[int(by.name) - 1]
        if isinstance(by, exp.Column) and not by.args.get("table"):
            for column in whole.columns:
                if column.name.lower() == by.name.lower():
                    return column
        raise self._source.refuse(
            "order a UNION by the position or the name of an item of its first SELECT", by
        )

    def _parts(self, node: exp.Expr, env: Mapping[str, Named], *, is_whole: bool) -> list[Relation]:
        if isinstance(node, exp.Subquery) and not others_of(node, {"this"}):
            node = node.this
        if not isinstance(node, exp.Union):
            return [self._shell.relation(node, env)]
        if node.args.get("distinct"):
            self._differs = node.expression
        if not is_whole and others_of(node, {"this", "expression", "distinct", "with_"}):
            raise self._source.refuse("order and cut all rows of a UNION at once, at its end", node)
        inner = node.args.get("with_")
        if inner is not None and not is_whole:
            env = self._shell.records.scope(inner, env)
        found = self._parts(node.this, env, is_whole=False)
        if len(found) > MOST_PARTS:
            raise CapacityError(f"UNION ALL joins at most {MOST_PARTS} SELECTs. Ask its parts.")
        return [*found, *self._parts(node.expression, env, is_whole=False)]

    def _check_part(self, part: Relation, expected: Sequence[Column]) -> None:
        at, own = part.at, listed_of(part)
        if any(c.bounds or c.rank for c in own):
            raise self._source.refuse(
                "ask for ranks and probabilities in a SELECT of their own, without UNION", at
            )
        if not part.is_plain or part.keys or any(c.is_extra for c in part.columns):
            raise self._source.refuse(
                "select what each part of a UNION groups by, and choose by numbers at its end",
                at,
                hint="Nearest: ORDER BY and LIMIT at the end of the whole text.",
            )
        if len(own) != len(expected):
            raise self._source.refuse(
                f"have {len(expected)} items in each SELECT of a UNION, as in the first", at
            )
        if [c.is_number for c in own] != [c.is_number for c in expected]:
            raise self._source.refuse(
                "have groups and numbers at the same places in each SELECT of a UNION",
                at,
                hint="Nearest: a text such as 'all' where the first SELECT has a group.",
            )
        is_first = own[0].id == expected[0].id
        if not is_first and any(c.exactness != UNSAID for c in own):
            raise self._source.refuse(
                "say WITHIN behind the items of the first SELECT of a UNION, or at the end", at
            )

    def _part(
        self, one: Relation, i: int, ids: Sequence[int], totals: Mapping[int, int]
    ) -> exp.Select:
        alias = f"u{i}"
        listed = listed_of(one)
        parts: list[exp.Expr] = [
            exp.alias_(exp.column(c.sql, table=alias), called(id_))
            for c, id_ in zip(listed, ids, strict=True)
        ]
        for k, id_ in totals.items():
            total = listed[k].together
            of = exp.false() if total is None else exp.column(called(total), table=alias)
            parts.append(exp.alias_(of, called(id_)))
        place = exp.Add(this=exp.column(PLACE, table=alias), expression=exp.Literal.number(i << 40))
        inner = aliased(one.query, alias)
        return exp.Select(expressions=[*parts, exp.alias_(place, PLACE)]).from_(inner)


def _are_periods(parts: Sequence[Relation], k: int) -> bool:
    return all(one.is_period or one.course for one in (listed_of(part)[k] for part in parts))


def listed_of(relation: Relation) -> list[Column]:
    """The listed columns of a SELECT."""
    return [column for column in relation.columns if not column.is_extra]

"""Parse a text of SQL into a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Literal

from sqlglot import ParseError, exp

from qserver.errors import CapacityError, InputError, SqlError
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery, checked_span, linear_query
from qserver.query.sql.aggregates import Aggregates, Event, Linear, Quotient
from qserver.query.sql.attributes import Names
from qserver.query.sql.clauses import Clauses, chosen, read_clauses
from qserver.query.sql.functions import Functions, ProductTerm
from qserver.query.sql.regions import Regions
from qserver.query.sql.shaping.groups import Groups
from qserver.query.sql.shaping.items import items_of
from qserver.query.sql.shaping.layout import Layout
from qserver.query.sql.shaping.reading import Columns, Having, ShapeReader
from qserver.query.sql.shaping.shape import PLAIN
from qserver.query.sql.statement import Binning, Bounds, Ratio, Row, Statement, Sum
from qserver.query.sql.tokens import TokenizedSql, Words, tokenize
from qserver.query.structured import parse_query

MAX_CELLS = 1000
_PARTS = frozenset({"expressions", "from_", "where", "group", "kind", "distinct"}) | {
    "having",
    "order",
    "limit",
    "offset",
}
SCHEMA = "public"


def parse_statement(text: str, domain: Domain, *, dataset: str, name: str = "sql") -> Statement:
    """The statement in a text of SQL about a dataset.

    Args:
        name: the field that holds the text, for messages.

    Raises:
        SqlError: it cannot be answered; points at the place.
        CapacityError: it is too long, nested too deep, or asks too much.
    """
    sql = tokenize(text, names=(*domain.names, dataset), field=name)
    try:
        select = _parsed(sql)
        return _Reading(sql, select, domain, dataset).statement()
    except RecursionError as exc:
        raise CapacityError("The text of SQL is nested too deep. Ask its parts.") from exc


def query_of(document: object, domain: Domain, *, dataset: str) -> LinearQuery:
    """The linear query of a structured question or of a text of SQL.

    Such a text has no WITHIN and CONFIDENCE; other fields say how exact the answer shall be.

    Raises:
        QueryError: it is not a question on this domain; an SqlError points into the text.
        CapacityError: it has too many terms.
    """
    if not isinstance(document, str):
        return parse_query(document, domain)
    statement = parse_statement(document, domain, dataset=dataset, name="query")
    if statement.explains or statement.clauses != Clauses():
        raise statement.source.refuse(
            "say only what to count, without EXPLAIN, WITHIN and CONFIDENCE",
            statement.source.end,
            hint="`length` and `confidence` stand beside it; or send the text as `sql`.",
        )
    return statement.only_query


def _parsed(sql: TokenizedSql) -> exp.Select:
    source = sql.source
    if not sql.body:
        raise source.refuse("hold a SELECT", source.end, hint="Nearest: SELECT COUNT(*) FROM ...")
    try:
        found = Words().parser().parse(list(sql.body), source.text)
    except ParseError as exc:
        raise _unreadable(sql, exc) from exc
    if len(found) != 1 or not isinstance(found[0], exp.Select):
        raise source.refuse("be one SELECT", sql.body[0])
    return found[0]


def _unreadable(sql: TokenizedSql, exc: ParseError) -> SqlError:
    """The error at the token where the parser stopped; it tells the place of its last character."""
    told = exc.errors[0] if exc.errors else {}
    place = (told.get("line"), told.get("col"))
    token = next((t for t in sql.body if (t.line, t.col) == place), sql.body[-1])
    return sql.source.refuse(f"be SQL: it cannot be read at {sql.source.source(token)!r}", token)


class _Reading:
    """The reading of one text into a statement."""

    def __init__(self, sql: TokenizedSql, select: exp.Select, domain: Domain, dataset: str) -> None:
        self._sql = sql
        self._source = sql.source
        self._select = select
        self._domain = domain
        self._dataset = dataset
        self._names = Names(domain, sql.source, self._tables())
        self._regions = Regions(domain.sizes)
        self._functions = Functions(self._regions)
        self._aggregates = Aggregates(self._names, self._regions)
        self._groups = Groups(self._names, self._regions)

    def statement(self) -> Statement:
        """The statement of the text."""
        clauses = read_clauses(self._sql)
        items, having = items_of(self._sql, self._select), Having.of(self._select, self._names)
        condition = self._select.args.get("where")
        condition = having.where(None if condition is None else condition.this)
        groupings = self._groups.read(self._select.args.get("group"), items, condition)
        columns = Columns.of(items, groupings, self._groups)
        reader = ShapeReader(self._names, items, groupings, self._groups, columns)
        found = self._meanings(columns, 0)
        test, keys = reader.test(having), reader.keys(self._select.args.get("order"))
        layout = Layout(groupings, keys, reader.cut(self._select), test)
        # HAVING and ORDER BY may have added some.
        found += self._meanings(columns, len(found))
        items_meant = tuple(item.of if isinstance(item, Event) else item for item in found)
        kept = self._aggregates.condition(condition)
        rows = tuple(self._rows(layout, items_meant, kept))
        bounds, shape = self._bounds(found), layout.shape([row.group for row in rows])
        if bounds and shape != PLAIN:
            raise self._source.refuse(
                "not order or choose by probabilities",
                self._sql.body[0],
                hint="Nearest: the same without HAVING, ORDER BY and LIMIT.",
            )
        return Statement(
            self._source,
            self._sql.explains,
            tuple(columns.names),
            tuple(grouping.name for grouping in groupings),
            rows,
            chosen(clauses, shape.selection(len(rows)), self._source),
            bounds,
            shape,
            tuple(columns.digits) if any(d is not None for d in columns.digits) else (),
        )

    def _bounds(self, items: Sequence[Linear | Quotient | Event]) -> tuple[Bounds, ...]:
        """What PROBABILITY asks about each column."""
        events = [item for item in items if isinstance(item, Event)]
        if events and len(events) < len(items):
            raise self._source.refuse(
                "select either probabilities or numbers",
                self._sql.body[0],
                hint="Ask for the numbers in a statement that says WITHIN.",
            )
        return tuple(
            Bounds(
                -inf if event.low is None else float(event.low),
                inf if event.high is None else float(event.high),
            )
            for event in events
        )

    def _tables(self) -> tuple[str, ...]:
        """The names that the text may use for its dataset; also checks the FROM."""
        unknown = {key for key, value in self._select.args.items() if value and key not in _PARTS}
        source = self._select.args.get("from_")
        if source is None:
            raise self._source.refuse(
                "say what it reads", self._source.end, hint=f"Nearest: FROM {self._dataset}."
            )
        table = source.this
        plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        if unknown or not plain or set(_given(table)) - {"this", "alias", "db"}:
            raise self._source.refuse("read one dataset, by its name", source)
        name, schema = table.this, table.args.get("db")
        if schema is not None and schema.name.lower() != SCHEMA:
            raise self._source.refuse(
                f"name no schema but `{SCHEMA}`",
                schema,
                hint=f"Nearest: FROM {self._dataset}.",
            )
        distinct = self._select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self._source.refuse("not use DISTINCT ON", distinct, hint="Nearest: GROUP BY.")
        same = name.name == self._dataset
        if not same and (name.quoted or name.name.lower() != self._dataset.lower()):
            raise self._source.refuse(
                f"read the dataset that it is sent to, `{self._dataset}`", name
            )
        return (name.name, table.alias) if table.alias else (name.name,)

    def _meanings(self, columns: Columns, first: int) -> tuple[Linear | Quotient | Event, ...]:
        """What the columns of numbers mean, from the `first` on."""
        if not columns.nodes:
            raise self._source.refuse(
                "count or sum something", self._sql.body[0], hint="Nearest: SELECT COUNT(*)."
            )
        nodes = columns.nodes[first:]
        return tuple(self._aggregates.event(node) or self._aggregates.item(node) for node in nodes)

    def _rows(
        self,
        layout: Layout,
        items: tuple[Linear | Quotient, ...],
        kept: tuple[ProductTerm, ...],
    ) -> Iterator[Row]:
        """A row per group that is measured.

        Raises:
            CapacityError: they hold too many numbers.
        """
        limited = [self._limited(item, kept) for item in items]
        if layout.most_rows * len(items) > MAX_CELLS:
            raise CapacityError(
                f"A text of SQL asks at most {MAX_CELLS:,} numbers, this one "
                f"{layout.most_rows * len(items):,}. "
                "Group by fewer values: WHERE leaves groups out."
            )
        for names, region in layout.groups(self._regions):
            inside = self._functions.indicator(region)
            yield Row(names, tuple(self._cell(self._limited(item, inside)) for item in limited))

    def _limited(self, item: Linear | Quotient, kept: tuple[ProductTerm, ...]) -> Linear | Quotient:
        if isinstance(item, Linear):
            return Linear(self._functions.multiplied(item.terms, kept), item.error)
        numerator, denominator = (
            Linear(self._functions.multiplied(part.terms, kept), part.error)
            for part in (item.numerator, item.denominator)
        )
        return replace(item, numerator=numerator, denominator=denominator)

    def _cell(self, item: Linear | Quotient) -> Sum | Ratio:
        if isinstance(item, Linear):
            binning = Binning(item.error, "record") if item.error else None
            return Sum(self._query(item), binning)
        error = item.numerator.error
        of: Literal["average", "numerator"] = "average" if item.is_average else "numerator"
        return Ratio(
            self._query(item.numerator),
            self._query(item.denominator),
            item.low,
            item.high,
            Binning(error, of) if error else None,
        )

    def _query(self, item: Linear) -> LinearQuery:
        try:
            terms = [(t.coefficient, t.factors) for t in item.terms]
            return checked_span(linear_query(self._domain.sizes, terms))
        except InputError as exc:
            raise self._source.refuse(exc.condition, self._sql.body[0]) from exc


def _given(node: exp.Expr) -> Iterator[str]:
    """The parts of a node that the text has."""
    return (key for key, value in node.args.items() if value)

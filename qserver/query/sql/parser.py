"""Parse a text of SQL into a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import inf, prod
from typing import Literal

from sqlglot import Dialect, ParseError, TokenType, exp

from qserver.errors import CapacityError, InputError, SqlError
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery, checked_span, linear_query
from qserver.query.sql.aggregates import Aggregates, Event, Linear, Quotient
from qserver.query.sql.attributes import Names
from qserver.query.sql.clauses import Clauses, read_clauses
from qserver.query.sql.functions import Functions, ProductTerm
from qserver.query.sql.regions import Regions
from qserver.query.sql.statement import Binning, Bounds, Ratio, Row, Statement, Sum
from qserver.query.sql.text import TextPlace
from qserver.query.sql.tokens import TokenizedSql, tokenize
from qserver.query.structured import parse_query

MAX_CELLS = 1000
MAX_GROUPED = 3


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
        found = Dialect.get_or_raise(None).parser().parse(list(sql.body), source.text)
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

    def statement(self) -> Statement:
        """The statement of the text."""
        clauses = read_clauses(self._sql)
        axes = self._grouped()
        columns, found = self._items(axes)
        items = tuple(item.of if isinstance(item, Event) else item for item in found)
        where = self._select.args.get("where")
        condition = None if where is None else where.this
        kept = self._aggregates.condition(condition)
        masks = [self._aggregates.possible(condition, axis) for axis in axes]
        n_cells = prod(mask.bit_count() for mask in masks) * len(items)
        if n_cells > MAX_CELLS:
            raise CapacityError(
                f"A text of SQL asks at most {MAX_CELLS:,} numbers, this one {n_cells:,}. "
                "Group by fewer values: WHERE leaves groups out."
            )
        return Statement(
            self._source,
            self._sql.explains,
            columns,
            tuple(self._domain.names[axis] for axis in axes),
            tuple(self._rows(axes, masks, items, kept)),
            clauses,
            self._bounds(found),
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
        unknown = {
            key
            for key, value in self._select.args.items()
            if value and key not in ("expressions", "from_", "where", "group", "kind")
        }
        source = self._select.args.get("from_")
        if source is None:
            raise self._source.refuse(
                "say what it reads", self._source.end, hint=f"Nearest: FROM {self._dataset}."
            )
        table = source.this
        plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
        if unknown or not plain or set(_given(table)) - {"this", "alias"}:
            raise self._source.refuse("read one dataset, by its name", source)
        name = table.this
        same = name.name == self._dataset
        if not same and (name.quoted or name.name.lower() != self._dataset.lower()):
            raise self._source.refuse(
                f"read the dataset that it is sent to, `{self._dataset}`", name
            )
        return (name.name, table.alias) if table.alias else (name.name,)

    def _grouped(self) -> tuple[int, ...]:
        group = self._select.args.get("group")
        if group is None:
            return ()
        if set(_given(group)) - {"expressions"} or not group.expressions:
            raise self._source.refuse("group by attributes alone", group)
        axes: list[int] = []
        for node in group.expressions:
            node = node.unnest()
            if not isinstance(node, exp.Column):
                raise self._source.refuse(
                    "group by attributes, given by their names",
                    node,
                    hint="Nearest: COUNT(*) FILTER (WHERE ...) per group of your own.",
                )
            axes.append(self._names.axis(node))
        if len(axes) > MAX_GROUPED or len(set(axes)) < len(axes):
            raise self._source.refuse(f"group by one to {MAX_GROUPED} attributes", group)
        return tuple(axes)

    def _items(
        self, axes: tuple[int, ...]
    ) -> tuple[tuple[str, ...], tuple[Linear | Quotient | Event, ...]]:
        """Names and meanings of the columns, without those of GROUP BY."""
        columns: list[str] = []
        items: list[Linear | Quotient | Event] = []
        places = _item_places(self._sql)
        if len(places) != len(self._select.expressions):
            # The parser accepts a comma at the end.
            raise self._source.refuse("have one item between commas", self._sql.body[0])
        for node, place in zip(self._select.expressions, places, strict=True):
            inner = node.this if isinstance(node, exp.Alias) else node
            if isinstance(inner, exp.Column) and self._is_grouped(inner, axes):
                continue
            items.append(self._aggregates.event(inner) or self._aggregates.item(inner))
            columns.append(node.alias or self._source.source(place))
        if not items:
            raise self._source.refuse(
                "count or sum something", self._sql.body[0], hint="Nearest: SELECT COUNT(*)."
            )
        return tuple(columns), tuple(items)

    def _is_grouped(self, node: exp.Column, axes: tuple[int, ...]) -> bool:
        return not isinstance(node.this, exp.Star) and self._names.axis(node) in axes

    def _rows(
        self,
        axes: tuple[int, ...],
        masks: list[int],
        items: tuple[Linear | Quotient, ...],
        kept: tuple[ProductTerm, ...],
    ) -> Iterator[Row]:
        limited = [self._limited(item, kept) for item in items]
        values = [[i for i in range(mask.bit_length()) if mask >> i & 1] for mask in masks]
        for group in product(*values):
            box = {axis: 1 << i for axis, i in zip(axes, group, strict=True)}
            inside = self._functions.indicator((box,))
            names = tuple(
                self._domain.attributes[axis].value_names[i]
                for axis, i in zip(axes, group, strict=True)
            )
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


def _item_places(sql: TokenizedSql) -> list[TextPlace]:
    """The places of the items of SELECT in the text."""
    places: list[TextPlace] = []
    depth, start = 0, 1
    for i, token in enumerate(sql.body):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and token.token_type in (TokenType.COMMA, TokenType.FROM):
            places.append(TextPlace(sql.body[start].start, sql.body[i - 1].end + 1))
            start = i + 1
            if token.token_type is TokenType.FROM:
                break
    return places

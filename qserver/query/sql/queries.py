"""What to count, in either form: the structured one, or a text of SQL."""

from __future__ import annotations

from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.query.sql.clauses import Clauses
from qserver.query.sql.parser import parse_statement
from qserver.query.structured import parse_query


def query_of(document: object, domain: Domain, *, dataset: str) -> LinearQuery:
    """The linear query that a structured question, or a text of SQL, means.

    A text says only what to count: how exact the answer shall be stands beside it.

    Raises:
        QueryError: it is no question on this domain; an SqlError points into the text.
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

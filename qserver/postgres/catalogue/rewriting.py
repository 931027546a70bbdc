"""PostgreSQL's SQL of the catalogue made SQLite's: one SELECT, its casts, arrays and operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import ParseError, TokenError, exp, parse

from qserver.postgres.catalogue.contents import EMPTY
from qserver.postgres.wire.faults import NOT_SUPPORTED, SYNTAX, PostgresError

_NEAREST: Final = "A dataset is asked by SELECT ... FROM its name; SHOW TABLES lists them."
_SESSION: Final[Mapping[type[exp.Expr], str]] = {
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentUser: "current_user",
    exp.CurrentVersion: "version",
    exp.SessionUser: "session_user",
}
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """
        ALL ALTER AND AS BETWEEN CASE CHECK COLLATE COLUMN COMMIT CONSTRAINT CREATE CROSS
        CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DELETE DISTINCT DROP ELSE ESCAPE EXCEPT
        EXISTS FOREIGN FROM FULL GROUP HAVING IN INDEX INNER INSERT INTERSECT INTO IS ISNULL JOIN
        LEFT LIMIT NATURAL NOT NOTNULL NULL ON OR ORDER OUTER PRIMARY REFERENCES RIGHT SELECT SET
        TABLE THEN TO TRANSACTION UNION UNIQUE UPDATE USING VALUES WHEN WHERE
        """,
    )
)
_INTEGERS: Final = frozenset(["INT", "BIGINT", "SMALLINT", "OID", "TINYINT"])


def parsed(text: str) -> exp.Expr:
    """The one SELECT in a text; PostgresError."""
    try:
        found = parse(text, dialect="postgres")
    except (ParseError, TokenError, RecursionError, ValueError) as exc:
        raise PostgresError(SYNTAX, "The statement cannot be read.", hint=_NEAREST) from exc
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise PostgresError(SYNTAX, "Only one SELECT can be asked here.", hint=_NEAREST)
    return found[0]


def output_names(query: exp.Expr) -> list[str]:
    """The names of the columns, as PostgreSQL gives them; `*` stays."""
    select = _first(query)
    return [_name(item) for item in select.expressions]


def rewritten(query: exp.Expr) -> exp.Expr:
    """The same for SQLite; where it must be empty, with no rows from the start."""
    if query.find(exp.RecursiveWithSearch) or any(w.recursive for w in query.find_all(exp.With)):
        raise PostgresError(NOT_SUPPORTED, "WITH RECURSIVE is not supported here.")
    return _replaced(_emptied(_replaced(query, _without_tables)), _rewritten)


def _replaced(root: exp.Expr, by: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A tree with each node replaced, from within outward."""
    for node in reversed(list(root.walk())):
        made = by(node)
        if made is node:
            continue
        if node is root:
            root = made
        else:
            node.replace(made)
    return root


def _first(query: exp.Expr) -> exp.Select:
    while isinstance(query, exp.SetOperation | exp.Subquery | exp.Paren):
        query = query.this
    if not isinstance(query, exp.Select):
        raise PostgresError(NOT_SUPPORTED, "Only SELECT can be asked here.", hint=_NEAREST)
    return query


def _name(item: exp.Expr) -> str:
    if isinstance(item, exp.Alias):
        return _folded(item.args["alias"])
    item = item.unnest() if isinstance(item, exp.Paren) else item
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star):
        return "*"
    if isinstance(item, exp.Column):
        return _folded(item.this)
    if isinstance(item, exp.Cast):
        inner = _name(item.this)
        return inner if inner != "?column?" else item.to.sql("postgres").lower()
    if isinstance(item, exp.Dot):
        return _name(item.expression)
    if isinstance(item, exp.Identifier):
        return _folded(item)
    return _function_name(item)


def _function_name(item: exp.Expr) -> str:
    if type(item) in _SESSION:
        return _SESSION[type(item)]
    if isinstance(item, exp.Anonymous):
        return str(item.this).lower()
    if isinstance(item, exp.Case):
        return "case"
    if isinstance(item, exp.Subquery):
        return next(iter(output_names(item)), "?column?")
    if isinstance(item, exp.Array | exp.Exists):
        return "array" if isinstance(item, exp.Array) else "exists"
    if isinstance(item, exp.Func) and not isinstance(item, exp.Connector | exp.Binary):
        return item.sql_name().lower()
    return "?column?"


def _folded(identifier: exp.Expr) -> str:
    if isinstance(identifier, exp.Identifier):
        return identifier.name if identifier.quoted else identifier.name.lower()
    return identifier.name.lower()


def _without_tables(node: exp.Expr) -> exp.Expr:
    """Functions that give tables, as tables."""
    called = node.this if isinstance(node, exp.Table) else node
    if isinstance(called, exp.GenerateSeries | exp.Unnest | exp.Explode):
        return node if node.parent is called or node.find(exp.Column) else _series(node, called)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
        node.set("this", exp.to_identifier(str(node.this.this).lower()))
    return node


def _series(node: exp.Expr, called: exp.Expr) -> exp.Expr:
    """A table of the elements of an array, or of the numbers between two."""
    alias = node.args.get("alias")
    if not isinstance(alias, exp.TableAlias) or node.parent is None:
        return node
    name = alias.columns[0].name if alias.columns else alias.name
    if isinstance(called, exp.GenerateSeries):
        ends = [called.args["start"], called.args["end"]]
        listed = exp.Anonymous(this="pg_series", expressions=ends)
    else:
        arrays = called.expressions or [called.this]
        listed = exp.Anonymous(this="pg_listed", expressions=arrays[:1])
    each = exp.Table(this=exp.Anonymous(this="json_each", expressions=[listed]))
    items = exp.select(exp.alias_(exp.column("value"), name)).from_(each)
    return exp.Subquery(this=items, alias=exp.TableAlias(this=exp.to_identifier(alias.name)))


def _emptied(query: exp.Expr) -> exp.Expr:
    """Each SELECT that reads a table without rows, from within outward, as one of no rows."""
    for select in reversed(list(query.find_all(exp.Select))):
        if _is_empty(select):
            names = [(_name(item), item) for item in select.expressions]
            if any(name == "*" for name, _ in names):
                select.set("where", exp.Where(this=exp.false()))
                continue
            nulls = [exp.alias_(exp.Null(), name, quoted=True) for name, _ in names]
            bare = exp.Select(expressions=nulls, where=exp.Where(this=exp.false()))
            if select is query:
                query = bare
            else:
                select.replace(bare)
    return query


def _is_empty(select: exp.Select) -> bool:
    """Whether a SELECT has no rows, whatever it says: it reads a table that has none."""
    source, joins = select.args.get("from_"), select.args.get("joins") or ()
    sides = {str(join.side).upper() for join in joins}
    if source is None or not sides <= {"", "LEFT"} or _gathers(select):
        return False
    inner = [join.this for join in joins if not join.side]
    return any(_has_no_rows(one) for one in (source.this, *inner))


def _gathers(select: exp.Select) -> bool:
    """Whether it makes one row of all, be there any or not."""
    if select.args.get("group") is not None:
        return False
    found = (one for item in select.expressions for one in item.find_all(exp.AggFunc))
    return any(
        one.parent_select is select and not isinstance(one.parent, exp.Window) for one in found
    )


def _has_no_rows(source: exp.Expr) -> bool:
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        return source.name.lower() in EMPTY
    if isinstance(source, exp.Lateral | exp.Unnest | exp.Table):
        # An array of a column: all of these are NULL here.
        return source.find(exp.Column) is not None
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
        where = source.this.args.get("where")
        return where is not None and where.this == exp.false()
    return False


def _rewritten(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        called: exp.Expr = node.expression
        return called  # pg_catalog.f(x)
    if (name := _SESSION.get(type(node))) is not None:
        return exp.Anonymous(this=name, expressions=_arguments(node))
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.ByteString):
        return exp.Literal.string(node.this)
    if isinstance(node, exp.EQ | exp.NEQ) and (found := _quantified(node)) is not None:
        return found
    if isinstance(node, exp.Array):
        return _array(node)
    if isinstance(node, exp.Bracket):
        # Counted from 0 once it is read.
        return exp.Anonymous(this="pg_element", expressions=[node.this, *node.expressions])
    return _operated(_named(node))


def _named(node: exp.Expr) -> exp.Expr:
    """Names that SQLite would take for something else, and lists that it must have."""
    if isinstance(node, exp.Identifier):
        # SQLite takes a quoted name that it does not know for a text.
        is_plain = _PLAIN.fullmatch(node.name) and node.name.upper() not in _RESERVED
        return exp.to_identifier(node.name, quoted=not is_plain)
    if isinstance(node, exp.Collate):
        bare: exp.Expr = node.this
        return bare
    if isinstance(node, exp.Select) and not node.expressions:
        node.set("expressions", [exp.Null()])
    if isinstance(node, exp.Table) and node.args.get("alias") and node.args["alias"].columns:
        raise PostgresError(NOT_SUPPORTED, "A table's columns cannot be renamed here.")
    return node


def _operated(node: exp.Expr) -> exp.Expr:
    """Matching by patterns, and comparisons that NULL has a part in."""
    if isinstance(node, exp.RegexpLike):
        return _regex(node.this, node.expression, "")
    if isinstance(node, exp.RegexpILike):
        return _regex(node.this, node.expression, "i")
    if isinstance(node, exp.Operator):
        sign = str(node.args.get("operator")).rpartition(".")[2]
        if sign.lstrip("!") in ("~", "~*"):
            found = _regex(node.this, node.expression, "i" if sign.endswith("*") else "")
            return exp.Not(this=found) if sign.startswith("!") else found
        if sign in ("=", "<>"):
            kind = exp.EQ if sign == "=" else exp.NEQ
            return kind(this=node.this, expression=node.expression)
        raise PostgresError(NOT_SUPPORTED, "An operator is not supported here.")
    if isinstance(node, exp.ILike):
        sides = (exp.Lower(this=side) for side in (node.this, node.expression))
        return exp.Anonymous(this="like", expressions=[*sides][::-1])
    return node


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    found = node.args.get("this")
    return [found] if isinstance(found, exp.Expr) else []


def _regex(text: exp.Expr, pattern: exp.Expr, flags: str) -> exp.Expr:
    return exp.Anonymous(this="pg_regex", expressions=[text, pattern, exp.Literal.string(flags)])


def _cast(node: exp.Cast) -> exp.Expr:
    """A cast to a number of a table or type by its function; to another type of no effect."""
    kind = cast_name(node)
    if kind in ("REGCLASS", "REGPROC", "REGTYPE"):
        return exp.Anonymous(this=f"pg_{kind.lower()}", expressions=[node.this])
    if kind in _INTEGERS and isinstance(node.this, exp.Literal):
        return exp.cast(node.this, "INT")
    return node.this if not isinstance(node.this, exp.Literal) else exp.Paren(this=node.this)


def cast_name(node: exp.Cast) -> str:
    """The name of the type that a cast says, in capital letters, without its schema."""
    return node.to.sql("postgres").upper().rpartition(".")[2].strip('"')


def _quantified(node: exp.EQ | exp.NEQ) -> exp.Expr | None:
    """`= ANY (array)` and `<> ALL (array)`; None for another comparison."""
    right = node.expression
    fitting = exp.Any if isinstance(node, exp.EQ) else exp.All
    if isinstance(right, fitting):
        array = right.this
    elif isinstance(right, exp.Anonymous) and str(right.this).lower() in ("any", "all"):
        array = right.expressions[0]
    else:
        return None
    array = array.unnest()
    if isinstance(array, exp.Query):
        found: exp.Expr = exp.In(this=node.this, query=exp.Subquery(this=array))
    elif isinstance(array, exp.Anonymous) and array.this == "pg_array":
        found = exp.In(this=node.this, expressions=array.expressions)
    else:
        found = exp.Anonymous(this="pg_in_array", expressions=[node.this, array])
    return found if isinstance(node, exp.EQ) else exp.Not(this=found)


def _array(node: exp.Array) -> exp.Expr:
    items = node.expressions
    if len(items) == 1 and isinstance(items[0], exp.Select):
        select = items[0]
        name = "element"
        first = select.expressions[0].unalias()
        select.set("expressions", [exp.alias_(first, name)])
        gathered = exp.Anonymous(this="pg_array_agg", expressions=[exp.column(name)])
        return exp.Subquery(this=exp.select(gathered).from_(exp.Subquery(this=select, alias="one")))
    return exp.Anonymous(this="pg_array", expressions=items)

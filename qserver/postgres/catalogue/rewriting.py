"""PostgreSQL's SQL of the catalogue, rewritten for DuckDB: relations, casts, and a few functions.

What is constant for a connection, such as `current_user`, becomes a literal here. What is left is
held to a list of what may be evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sqlglot import ErrorLevel, ParseError, TokenError, UnsupportedError, exp, parse

from qserver.postgres.catalogue.functions import FUNCTIONS
from qserver.postgres.wire.faults import NO_TABLE, NOT_SUPPORTED, SYNTAX, PostgresError
from qserver.postgres.wire.texts import pieces
from qserver.postgres.wire.values import elements
from qserver.query.sql.engine.allow_list import NAMES, NODES, TYPES, Allowed, check
from qserver.query.sql.tables.catalogue_relations import Names, Relation, relation
from qserver.text import meant

_NEAREST: Final = "A dataset is asked by SELECT ... FROM its name; SHOW TABLES lists them."
_SESSION: Final[Mapping[type[exp.Expr], str]] = {
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentDatabase: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentUser: "current_user",
    exp.CurrentVersion: "version",
    exp.SessionUser: "session_user",
}
_ALLOWED: Final = Allowed(
    NODES
    | {exp.ArrayAgg, exp.ArraySize, exp.ArrayToString, exp.Bracket, exp.GenerateSeries, exp.Slice}
    | {exp.Explode, exp.StringToArray}
    | {exp.Unnest, exp.Dot, exp.BitwiseAnd, exp.Struct, exp.PropertyEQ},
    NAMES
    | {"ALL", "ANY", "GENERATE_SUBSCRIPTS", "ARRAY_POSITION", "ROW_NUMBER"}
    | {name.upper() for name in FUNCTIONS}
    | {"JSON_OBJECT"},
    TYPES
    | {exp.DType.UINT, exp.DType.ARRAY, exp.DType.TIMESTAMPTZ, exp.DType.INTERVAL}
    | {exp.DType.LIST, exp.DType.TINYINT},
    repeats=True,
)
_CASTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("OID", "XID", "CID"), "UINTEGER"),
    **dict.fromkeys(("NAME", "BPCHAR", "CHAR", "CSTRING", "JSON", "JSONB", "REGPROC"), "TEXT"),
    **dict.fromkeys(("CHARACTER_DATA", "SQL_IDENTIFIER", "YES_OR_NO", "UNKNOWN"), "TEXT"),
    **dict.fromkeys(("REGPROCEDURE", "REGOPER", "REGROLE", "REGCONFIG", "INET"), "TEXT"),
    **dict.fromkeys(("NUMERIC", "DECIMAL"), "DOUBLE"),
    **dict.fromkeys(("_TEXT", "_NAME", "NAME[]", "_VARCHAR"), "TEXT[]"),
    **dict.fromkeys(("OID[]", "_OID", "OIDVECTOR"), "UINTEGER[]"),
    **dict.fromkeys(("INT2VECTOR", "_INT2"), "SMALLINT[]"),
    "CARDINAL_NUMBER": "INTEGER",
    "_INT4": "INTEGER[]",
}
_FUNCTIONS: Final = re.compile(r"typ(?:input|output|receive|send|modin|modout|analyze|subscript)")
_NUMBERED: Final = re.compile(r"oid|name|reg[a-z]+")
_TEMPLATE: Final = re.compile(r"%([%sIL])")
_SERIES: Final = (exp.GenerateSeries, exp.ExplodingGenerateSeries)


def parsed(text: str) -> exp.Expr:
    """The one SELECT in a text; PostgresError."""
    try:
        found = parse(_without_schema(text), dialect="postgres")
    except (ParseError, TokenError, RecursionError, ValueError) as exc:
        raise PostgresError(SYNTAX, "The statement cannot be read.", hint=_NEAREST) from exc
    if len(found) != 1 or not isinstance(found[0], exp.Query | exp.Values):
        raise PostgresError(SYNTAX, "Only one SELECT can be asked here.", hint=_NEAREST)
    first = found[0]
    if isinstance(first, exp.Select) and not (first.expressions or first.args.get("from_")):
        raise PostgresError(SYNTAX, "This SELECT selects nothing: name a column.", hint=_NEAREST)
    return first


def _without_schema(text: str) -> str:
    """The text without schemas of functions and operators, and with arrays of plain types."""
    parts, found, last = list(pieces(text)), "", 0
    words = [part.name.lower() for part in parts]
    for i, part in enumerate(parts):
        after = words[i + 1 : i + 4]
        if words[i] == "pg_catalog" and after[:1] == ["."] and after[2:] in (["("], ["["]):
            found, last = found + text[last : part.start], parts[i + 1].stop
        elif words[i] == "operator" and after == ["(", "pg_catalog", "."]:
            stop = words.index(")", i)
            found += text[last : part.start] + text[parts[i + 3].stop : parts[stop].start]
            last = parts[stop].stop
        elif after[:2] == ["[", "]"] and _NUMBERED.fullmatch(words[i]):
            plain = "bigint" if words[i] == "oid" else "text"
            found, last = found + text[last : part.start] + plain, part.stop
    return found + text[last:]


class Rewriting:
    """The SQL of one statement; `relations` holds the ones it reads, by their names in DuckDB."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.relations = dict[str, Relation]()
        self._tables = set[str]()

    def sql(self, text: str) -> str:
        """The text for DuckDB; PostgresError, EngineError, CapacityError."""
        query = parsed(text)
        if isinstance(query, exp.Values):
            query = exp.select("*").from_(query)
        known = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
        for select in list(query.find_all(exp.Select)):
            _name_items(select)
        self._tables = known
        made = _replaced(query, self._rewritten)
        tables = {*self.relations, *(cte.alias for cte in made.find_all(exp.CTE))}
        check(made, tables, _ALLOWED)
        try:
            return made.sql(
                "duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
            )
        except UnsupportedError as exc:
            raise PostgresError(NOT_SUPPORTED, "The query is not supported here.") from exc

    def _rewritten(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        return _plain(node)

    def _table(self, node: exp.Table) -> exp.Expr:
        """A relation of the catalogue by its name in DuckDB; PostgresError."""
        called = node.this
        if isinstance(called, (*_SERIES, exp.Unnest)):
            series = exp.GenerateSeries(**called.args)
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier("series"))
            return exp.Unnest(expressions=[series], alias=alias)
        if isinstance(called, exp.Func) and type(called) in _ALLOWED.nodes:
            return _row_of(node, called)
        name = str(called.this).lower() if isinstance(called, exp.Anonymous) else node.name
        schema = node.db.lower()
        if not schema and name.lower() in self._tables:
            return node
        known = ("pg_catalog", "information_schema")
        schemas = ("pg_catalog",) if not schema else (schema,) if schema in known else ()
        found = next((r for s in schemas if (r := relation(s, name.lower())) is not None), None)
        if found is None:
            tables = [table.name for table in self._names.tables]
            raise PostgresError(
                NO_TABLE,
                f"There is no dataset called `{node.name[:60] or name[:60]}`.",
                hint=f"{meant(node.name, tables)} SHOW TABLES lists the datasets.".strip(),
            )
        place = f"{'catalogue' if found.schema == 'pg_catalog' else 'standard'}.{found.name}"
        self.relations[place] = found
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        made = exp.Table(this=exp.to_identifier(place, quoted=True), alias=alias)
        for key in ("joins", "laterals"):
            made.set(key, node.args.get(key))
        return made

    @staticmethod
    def _cast(node: exp.Cast) -> exp.Expr:
        """A cast to the number of a table or type, or to its name; other casts by DuckDB's type."""
        kind = _cast_name(node)
        if kind in ("REGCLASS", "REGTYPE", "REGNAMESPACE"):
            return _numbered(node, kind.lower())
        if kind.endswith("[]") or kind.startswith("_"):
            value = node.this.unnest()
            if isinstance(value, exp.Literal) and value.is_string:
                node.set("this", _array_of(value.name))
        other = _CASTS.get(kind, kind if node.to.this == exp.DType.USERDEFINED else None)
        if other is not None:
            node.set("to", exp.DataType.build(other, dialect="duckdb"))
        return node


def _row_of(node: exp.Table, called: exp.Func) -> exp.Subquery:
    """The one row of a function of values in FROM, with the name of the table."""
    name = node.alias or called.sql_name().lower()
    inner = exp.select(exp.alias_(called.copy(), name))
    found = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(name)))
    for key in ("joins", "laterals"):
        found.set(key, node.args.get(key))
    return found


def _numbered(node: exp.Cast, kind: str) -> exp.Expr:
    """The number of a named object, or the name behind a number."""
    value, around = node.this, node.parent
    outer = _cast_name(around) if isinstance(around, exp.Cast) else ""
    is_number = value.name.lower().endswith(_NUMBERS)
    if isinstance(value, exp.Literal):
        is_number = not value.is_string
    number = value if is_number else exp.Anonymous(this=f"{kind}_of", expressions=[value])
    is_shown = isinstance(around, exp.Alias) and around.parent is node.root()
    if outer in _TEXTS or is_shown or (is_number and outer not in _WHOLE):
        return exp.Anonymous(this=f"{kind}_name", expressions=[number])
    return number


_USERS: Final = ("user", "current_role")
_CLOCKS: Final = ("clock_timestamp", "statement_timestamp", "transaction_timestamp")
_WHOLE: Final = ("OID", "INT", "BIGINT", "INT8", "INT4", "INTEGER")
_TEXTS: Final = ("TEXT", "VARCHAR")
_NUMBERS: Final = ("oid", "relid", "typid", "namespace", "parent")


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


def _called(node: exp.Expr) -> str:
    """The name of a function, in small letters; '' for other nodes."""
    if type(node) in _SESSION:
        return _SESSION[type(node)]
    if isinstance(node, exp.Column):
        is_word = node.name.lower() in _USERS and not node.table and not node.this.quoted
        return node.name.lower() if is_word else ""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _oid(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.build("UINTEGER", dialect="duckdb"))


def _plain(node: exp.Expr) -> exp.Expr:
    """The expressions that DuckDB writes differently."""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
        called: exp.Expr = node.expression
        return called  # information_schema.f(x)
    if isinstance(node, exp.Column):
        node.set("db", None)
        return _oid(exp.null()) if node.name.lower() == "tableoid" else _function(node)
    if isinstance(node, exp.ByteString):
        return exp.Literal.string(node.this)
    if isinstance(node, exp.Collate):
        bare: exp.Expr = node.this
        return bare
    if isinstance(node, exp.Select) and not node.expressions:
        node.set("expressions", [exp.null()])
    return _function(_compared(node))


def _compared(node: exp.Expr) -> exp.Expr:
    """Comparisons with arrays that are written as texts, and with the number of no function."""
    if isinstance(node, exp.Any) or _called(node) in ("any", "all"):
        inner = node.this if isinstance(node, exp.Any) else node.expressions[0]
        value = inner.unnest()
        if isinstance(value, exp.Literal):
            value.replace(_array_of(value.name))
    if isinstance(node, exp.EQ | exp.NEQ) and _is_function(node.this):
        node.set("expression", _without_number(node.expression))
    return node


def _is_function(node: exp.Expr) -> bool:
    """Whether a column holds functions of a type: a number in comparisons, a name elsewhere."""
    return isinstance(node, exp.Column) and _FUNCTIONS.fullmatch(node.name.lower()) is not None


def _without_number(node: exp.Expr) -> exp.Expr:
    """The name for the number of no function."""
    is_none = isinstance(node, exp.Literal) and not node.is_string and node.name == "0"
    return exp.Literal.string("-") if is_none else node


def _function(node: exp.Expr) -> exp.Expr:
    """The functions that DuckDB lacks or names differently."""
    name = _called(node)
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp) or name in _CLOCKS:
        kind = "DATE" if isinstance(node, exp.CurrentDate) else "TIMESTAMPTZ"
        return exp.cast(exp.Literal.string(datetime.now(UTC).isoformat(" ")), kind)
    if isinstance(node, (*_SESSION, exp.Column)) and name:
        given = [] if isinstance(node, exp.Column) else [*node.iter_expressions()]
        return exp.Anonymous(this=f"own_{name}", expressions=given)
    if isinstance(node, exp.Format):
        return _formatted(node)
    if name == "json_build_object":
        parts = [exp.cast(v, "TEXT") if i % 2 == 0 else v for i, v in enumerate(node.expressions)]
        return exp.Anonymous(this="json_object", expressions=parts)
    return node


def _formatted(node: exp.Format) -> exp.Expr:
    """`format('%I.%s', a, b)` as parts put together."""
    values = iter(node.expressions)
    parts = list[exp.Expr]()
    for i, piece in enumerate(_TEMPLATE.split(node.this.name)):
        if i % 2 == 0 or piece == "%":
            parts.append(exp.Literal.string(piece))
        else:
            value = exp.cast(next(values, exp.null()), "TEXT")
            named = exp.Anonymous(this="quote_ident", expressions=[value])
            parts.append(named if piece == "I" else value)
    return exp.Concat(expressions=parts, safe=True, coalesce=False)


def _array_of(text: str) -> exp.Expr:
    items = [exp.null() if e is None else exp.Literal.string(e) for e in elements(text)]
    return exp.Array(expressions=items)


def _cast_name(node: exp.Cast) -> str:
    """The name of the type of a cast, in capital letters, without its schema."""
    return node.to.sql("postgres").upper().partition("(")[0].rpartition(".")[2].strip('"')


def _name_items(select: exp.Select) -> None:
    """Give each item without a name the one that PostgreSQL gives it."""
    inner = isinstance(select.parent, exp.Exists | exp.Array | exp.In | exp.Any)
    for item in [] if inner else list(select.expressions):
        name = _name(item)
        is_same = isinstance(item, exp.Column) and not item.args.get("db")
        if isinstance(item, exp.Alias):
            item.set("alias", exp.to_identifier(name, quoted=True))
        elif name != "*" and not (is_same and name == item.name and name not in _USERS):
            item.replace(exp.alias_(item.copy(), name, quoted=True))


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
    if isinstance(item, exp.Bracket):
        return _name(item.this)
    return _function_name(item)


def _function_name(item: exp.Expr) -> str:
    if called := _called(item):
        return called
    if isinstance(item, exp.Subquery):
        names = [_name(one) for one in item.selects]
        return names[0] if names else "?column?"
    for kind, name in _NAMED.items():
        if isinstance(item, kind):
            return name
    if isinstance(item, exp.Window | exp.Filter):
        return _name(item.this)
    if isinstance(item, exp.Func) and not isinstance(item, exp.Connector | exp.Binary):
        return item.sql_name().lower()
    return "?column?"


_NAMED: Final[Mapping[type[exp.Expr], str]] = {
    exp.Case: "case",
    exp.Array: "array",
    exp.Exists: "exists",
    exp.GroupConcat: "string_agg",
    exp.CurrentTimestamp: "now",
    exp.ArraySize: "array_length",
    exp.StrPosition: "position",
    exp.ArrayToString: "array_to_string",
}


def _folded(identifier: exp.Expr) -> str:
    is_quoted = isinstance(identifier, exp.Identifier) and identifier.quoted
    return identifier.name if is_quoted else identifier.name.lower()

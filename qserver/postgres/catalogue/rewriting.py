"""PostgreSQL's SQL of the catalogue made DuckDB's: names of relations, casts, and a few functions.

What is constant for a connection, such as `current_user`, becomes a literal here. What is left is
held to a list of what may be evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sqlglot import ErrorLevel, ParseError, TokenError, UnsupportedError, exp, parse

from qserver import __version__
from qserver.postgres.catalogue.constants import CONSTANTS, FALSE, TRUE, WRITES
from qserver.postgres.catalogue.contents import SCHEMAS, Names, Relation, facts, relation
from qserver.postgres.session import SERVER_VERSION
from qserver.postgres.wire.faults import NO_TABLE, NOT_SUPPORTED, SYNTAX, PostgresError
from qserver.postgres.wire.texts import pieces
from qserver.postgres.wire.values import elements, quoted
from qserver.query.sql.engine.allowed import NAMES, NODES, TYPES, Allowed, check
from qserver.text import meant

VERSION: Final = f"PostgreSQL {SERVER_VERSION} (qserver {__version__})"
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
    | {
        "FORMAT_TYPE",
        "QUOTE_IDENT",
        "REGCLASS_OF",
        "REGCLASS_NAME",
        "REGNAMESPACE_NAME",
        "REGTYPE_OF",
        "JSON_OBJECT",
    },
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
        raise PostgresError(SYNTAX, "A SELECT must select something.", hint=_NEAREST)
    return first


def _without_schema(text: str) -> str:
    """The text in which functions have no schema, and arrays of numbers and names plain types."""
    parts, found, last = pieces(text), "", 0
    words = [part.name.lower() for part in parts]
    for i, part in enumerate(parts):
        after = words[i + 1 : i + 4]
        if words[i] == "pg_catalog" and after[:1] == ["."] and after[2:] in (["("], ["["]):
            found, last = found + text[last : part.start], parts[i + 1].stop
        elif after[:2] == ["[", "]"] and _NUMBERED.fullmatch(words[i]):
            plain = "bigint" if words[i] == "oid" else "text"
            found, last = found + text[last : part.start] + plain, part.stop
    return found + text[last:]


class Rewriting:
    """The SQL of one statement; `relations` are those that it reads, by their names for DuckDB."""

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
        if isinstance(node, exp.Func | exp.Column) and (found := self._constant(node)):
            return found
        return _plain(node)

    def _table(self, node: exp.Table) -> exp.Expr:
        """A relation of the catalogue under its name for DuckDB; PostgresError."""
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

    def _constant(self, node: exp.Expr) -> exp.Expr | None:
        """What a function gives for this connection; None for others."""
        name = _called(node)
        if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate) or name in _CLOCKS:
            kind = "DATE" if isinstance(node, exp.CurrentDate) else "TIMESTAMPTZ"
            return exp.cast(exp.Literal.string(datetime.now(UTC).isoformat(" ")), kind)
        if name in CONSTANTS:
            return _constant(CONSTANTS[name])
        if name in TRUE | FALSE or (name.startswith("pg_") and name.endswith("_is_visible")):
            return exp.convert(name not in FALSE and not _writes(node))
        if name == "current_schemas":
            hidden = ["pg_catalog"] if "TRUE" in node.sql().upper() else []
            return exp.Array(expressions=[exp.Literal.string(s) for s in (*hidden, "public")])
        if name in ("current_setting", "set_config"):
            return self._setting(node, name)
        if name in ("to_regclass", "to_regtype") and node.expressions[0].is_string:
            number = self._found(name.removeprefix("to_").upper(), node.expressions[0].name)
            return _oid(exp.null() if number is None else exp.Literal.number(number))
        fixed = {**self._fixed, **dict.fromkeys(_USERS, self._names.user)}
        return exp.convert(fixed[name]) if name in fixed else None

    @property
    def _fixed(self) -> dict[str, str | int]:
        """What functions without arguments give."""
        return {
            "current_database": self._names.database,
            "current_catalog": self._names.database,
            "current_schema": "public",
            "version": VERSION,
            "pg_client_encoding": "UTF8",
            "pg_encoding_to_char": "UTF8",
            "pg_backend_pid": self._names.process,
            "txid_current": 0,
        }

    def _setting(self, node: exp.Expr, name: str) -> exp.Expr:
        """The value of a setting. A SELECT changes nothing; whoever means to spend says SET."""
        asked = node.expressions[0].name.lower() if node.expressions else ""
        settings = dict(self._names.settings)
        if name == "set_config" and not asked.startswith("qserver."):
            return node.expressions[1] if len(node.expressions) > 1 else exp.null()
        return exp.Literal.string(settings.get(asked, ""))

    def _cast(self, node: exp.Cast) -> exp.Expr:
        """A cast to a number of a table or type, or its name; another to DuckDB's type."""
        kind = _cast_name(node)
        if kind in ("REGCLASS", "REGTYPE", "REGNAMESPACE"):
            return self._numbered(node, kind)
        if kind.endswith("[]") or kind.startswith("_"):
            value = node.this.unnest()
            if isinstance(value, exp.Literal) and value.is_string:
                node.set("this", _array_of(value.name))
        other = _CASTS.get(kind, kind if node.to.this == exp.DType.USERDEFINED else None)
        if other is not None:
            node.set("to", exp.DataType.build(other, dialect="duckdb"))
        return node

    def _numbered(self, node: exp.Cast, kind: str) -> exp.Expr:
        """The number of what a text names, or the name of what a number stands for."""
        value, around = node.this, node.parent
        outer = _cast_name(around) if isinstance(around, exp.Cast) else ""
        is_literal = isinstance(value, exp.Literal)
        of_number = value.name.lower().endswith(_NUMBERS) if not is_literal else not value.is_string
        if is_literal and value.is_string:
            if (found := self._found(kind, value.name)) is None:
                raise PostgresError(NO_TABLE, f"There is no relation or type `{value.name[:60]}`.")
            value, of_number = exp.Literal.number(found), outer in _TEXTS
        elif not of_number and outer not in _TEXTS:
            return exp.Anonymous(this=f"{kind.lower()}_of", expressions=[value])
        if of_number and outer not in _WHOLE:
            name = {"REGTYPE": "format_type"}.get(kind, f"{kind.lower()}_name")
            return exp.Anonymous(this=name, expressions=[value])
        return value if outer in _TEXTS else _oid(value)

    def _found(self, kind: str, text: str) -> int | None:
        """The number of what a text names; None for nothing."""
        if kind == "REGNAMESPACE":
            return {name: oid for oid, name in SCHEMAS.items()}.get(text.lower())
        return (regclass if kind == "REGCLASS" else regtype)(self._names, text)


def _row_of(node: exp.Table, called: exp.Func) -> exp.Subquery:
    """The one row that a function of values is in FROM, with the name of the table."""
    name = node.alias or called.sql_name().lower()
    inner = exp.select(exp.alias_(called.copy(), name))
    found = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(name)))
    for key in ("joins", "laterals"):
        found.set(key, node.args.get(key))
    return found


_CLOCKS: Final = ("clock_timestamp", "statement_timestamp", "transaction_timestamp")
_USERS: Final = ("current_user", "session_user", "current_role", "user", "pg_get_userbyid")
_WHOLE: Final = ("OID", "INT", "BIGINT", "INT8", "INT4", "INTEGER")
_TEXTS: Final = ("TEXT", "VARCHAR")
_NUMBERS: Final = ("oid", "relid", "typid", "namespace", "parent")


def regclass(names: Names, text: str) -> int | None:
    """The number of the table of a name; None for no table."""
    if text.isdecimal():
        return int(text)
    parts = re.findall(r'"((?:[^"]|"")*)"|([^".]+)', text)
    wanted = parts[-1][0].replace('""', '"') or parts[-1][1].lower() if parts else ""
    own = {table.name.lower(): oid for oid, table in names.numbered}
    own |= {table.name: oid for oid, table in names.numbered}
    found: int | None = own.get(wanted) or facts()["oids"].get(wanted)
    return found


def regtype(_: Names, text: str) -> int | None:
    """The number of a type by any of its names; None for no type."""
    wanted = text.lower().removeprefix("pg_catalog.").strip('"')
    found = {row["typname"]: int(row["oid"]) for row in facts()["types"]}
    found |= {name.strip('"'): int(oid) for oid, name in facts()["type_names"].items()}
    return found.get({"int": "integer", "decimal": "numeric"}.get(wanted, wanted))


def macros(names: Names) -> list[str]:
    """The functions of names and numbers, which DuckDB is told."""
    types = facts()["type_names"]
    classes = {oid: _quote(table.name) for oid, table in names.numbered}
    classes = {oid: name for name, oid in facts()["oids"].items()} | classes
    plain = {name.strip('"'): oid for oid, name in classes.items()}
    last = "regexp_replace(regexp_replace(x::VARCHAR, '^.*\\.', ''), '\"', '', 'g')"
    by_type = {row["typname"]: row["oid"] for row in facts()["types"]}
    by_type |= {name.strip('"'): oid for oid, name in types.items()}
    return [
        f"format_type(x, y := NULL) AS CASE WHEN x = 0 THEN '-' WHEN x IS NOT NULL "
        f"THEN coalesce({_map(types, 'x::UINTEGER')}, '???') END",
        "quote_ident(x) AS CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_]*') THEN x "
        "ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END",
        f"regclass_name(x) AS coalesce({_map(classes, 'x::UINTEGER')}, x::VARCHAR)",
        f"regnamespace_name(x) AS coalesce({_map(SCHEMAS, 'x::UINTEGER')}, x::VARCHAR)",
        f"regclass_of(x) AS {_of_text(plain, last)}",
        f"regtype_of(x) AS {_of_text(by_type, 'x::VARCHAR')}",
    ]


def _map(values: Mapping[int, str] | Mapping[str, str], key: str) -> str:
    pairs = ", ".join(f"{oid}::UINTEGER: {quoted(name)}" for oid, name in values.items())
    return f"MAP {{{pairs}}}[{key}]"


def _of_text(values: Mapping[str, int] | Mapping[str, str], key: str) -> str:
    pairs = ", ".join(f"{quoted(name)}: {oid}::UINTEGER" for name, oid in values.items())
    return f"coalesce(try_cast(x AS UINTEGER), MAP {{{pairs}}}[{key}])"


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


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


def _constant(kind: str) -> exp.Expr:
    if kind == "VOID":
        return exp.Literal.string("")
    return exp.cast(exp.null(), exp.DataType.build(kind, dialect="duckdb"))


def _writes(node: exp.Expr) -> bool:
    """Whether the last argument names a privilege that nobody has."""
    last = node.expressions[-1:] if isinstance(node, exp.Anonymous) else []
    asked = last[0].name.upper() if last and last[0].is_string else ""
    return any(word in asked for word in WRITES)


def _called(node: exp.Expr) -> str:
    """The name of a function, in small letters; '' for what is none."""
    if type(node) in _SESSION:
        return _SESSION[type(node)]
    if isinstance(node, exp.Column):
        return "user" if node.name == "user" and not node.table and not node.this.quoted else ""
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else ""


def _oid(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.build("UINTEGER", dialect="duckdb"))


def _plain(node: exp.Expr) -> exp.Expr:
    """What DuckDB writes in another way."""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier):
        called: exp.Expr = node.expression
        return called  # information_schema.f(x)
    if isinstance(node, exp.Column):
        node.set("db", None)
        return _oid(exp.null()) if node.name.lower() == "tableoid" else node
    if isinstance(node, exp.ByteString):
        return exp.Literal.string(node.this)
    if isinstance(node, exp.Collate):
        bare: exp.Expr = node.this
        return bare
    if isinstance(node, exp.Select) and not node.expressions:
        node.set("expressions", [exp.null()])
    if isinstance(node, exp.Operator):
        return _operated(node)
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
    """Whether it is a column of functions of a type: a number in comparisons, a name elsewhere."""
    return isinstance(node, exp.Column) and _FUNCTIONS.fullmatch(node.name.lower()) is not None


def _without_number(node: exp.Expr) -> exp.Expr:
    """The name for the number of no function."""
    is_none = isinstance(node, exp.Literal) and not node.is_string and node.name == "0"
    return exp.Literal.string("-") if is_none else node


def _operated(node: exp.Operator) -> exp.Expr:
    """`OPERATOR(pg_catalog.~)` and the like."""
    sign = str(node.args.get("operator")).rpartition(".")[2]
    kinds: dict[str, type[exp.Expr]] = {
        "=": exp.EQ, "<>": exp.NEQ, "~": exp.RegexpLike, "~*": exp.RegexpILike, "~~": exp.Like
    }  # fmt: skip
    kind = kinds.get(sign.lstrip("!"))
    if kind is None:
        raise PostgresError(NOT_SUPPORTED, "An operator is not supported here.")
    found = kind(this=node.this, expression=node.expression)
    return exp.Not(this=found) if sign.startswith("!") else found


def _function(node: exp.Expr) -> exp.Expr:
    """Functions that DuckDB calls otherwise, or has not."""
    name = _called(node)
    if isinstance(node, exp.Format):
        return _formatted(node)
    if name in ("array_upper", "cardinality"):
        return exp.Nullif(
            this=exp.ArraySize(this=node.expressions[0]), expression=exp.Literal.number(0)
        )
    if name == "array_lower":
        return exp.Literal.number(1)
    if name == "_pg_expandarray":
        fields = (exp.PropertyEQ(this=exp.to_identifier(k), expression=exp.null()) for k in "xn")
        return exp.Struct(expressions=list(fields))
    renamed = {"to_regclass": "regclass_of", "to_regtype": "regtype_of"}
    if name == "json_build_object":
        parts = [exp.cast(v, "TEXT") if i % 2 == 0 else v for i, v in enumerate(node.expressions)]
        return exp.Anonymous(this="json_object", expressions=parts)
    if name in renamed:
        return exp.Anonymous(this=renamed[name], expressions=node.expressions)
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
    """The name of the type that a cast says, in capital letters, without its schema."""
    return node.to.sql("postgres").upper().partition("(")[0].rpartition(".")[2].strip('"')


def _name_items(select: exp.Select) -> None:
    """Give each item without a name the one that PostgreSQL gives it."""
    inner = isinstance(select.parent, exp.Exists | exp.Array | exp.In | exp.Any)
    for item in [] if inner else list(select.expressions):
        name = _name(item)
        is_same = isinstance(item, exp.Column) and not item.args.get("db")
        if isinstance(item, exp.Alias):
            item.set("alias", exp.to_identifier(name, quoted=True))
        elif name != "*" and not (is_same and name == item.name and name != "user"):
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
    exp.ArrayToString: "array_to_string",
}


def _folded(identifier: exp.Expr) -> str:
    is_quoted = isinstance(identifier, exp.Identifier) and identifier.quoted
    return identifier.name if is_quoted else identifier.name.lower()

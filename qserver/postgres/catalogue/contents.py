"""The tables of the catalogue and their rows: each dataset a table, each attribute a column.

The tables of the catalogue: names of columns, each with its type.

A column without one is a text. `EMPTY` are tables that have no rows here; other columns are added
to them when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qserver.postgres.wire.values import (
    BOOL,
    CHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NAME,
    NUMERIC,
    OID,
    TEXT,
    VARCHAR,
    Type,
)

Row = Mapping[str, Any]
OWNER: Final = 10
PG_CATALOG: Final = 11
PUBLIC: Final = 2200
INFORMATION_SCHEMA: Final = 13000
_DATABASE: Final = 16000
_FIRST_TABLE: Final = 16384
_STEP: Final = 2
SQL_NAMES: Final[Mapping[int, str]] = {
    BOOL.oid: "boolean",
    CHAR.oid: '"char"',
    NAME.oid: "name",
    INT8.oid: "bigint",
    INT2.oid: "smallint",
    INT4.oid: "integer",
    TEXT.oid: "text",
    OID.oid: "oid",
    FLOAT4.oid: "real",
    FLOAT8.oid: "double precision",
    VARCHAR.oid: "character varying",
    DATE.oid: "date",
    NUMERIC.oid: "numeric",
}
_CATEGORIES: Final[Mapping[int, str]] = {
    BOOL.oid: "B",
    CHAR.oid: "Z",
    NAME.oid: "S",
    TEXT.oid: "S",
    VARCHAR.oid: "S",
    DATE.oid: "D",
}
_BY_VALUE: Final = 8
"""Most bytes of a type that is passed by value."""
_ALIGNED: Final[Mapping[int, str]] = {1: "c", 2: "s", 8: "d", NAME.size: "c"}
"""By bytes; "i" for all others."""
_WITH_UNDERSCORE: Final = frozenset({DATE.oid, NUMERIC.oid})
"""Those whose functions are called `date_in` and the like."""
ARRAYS: Final[Mapping[int, int]] = {
    BOOL.oid: 1000,
    CHAR.oid: 1002,
    NAME.oid: 1003,
    INT2.oid: 1005,
    INT4.oid: 1007,
    TEXT.oid: 1009,
    VARCHAR.oid: 1015,
    INT8.oid: 1016,
    FLOAT4.oid: 1021,
    FLOAT8.oid: 1022,
    OID.oid: 1028,
    DATE.oid: 1182,
    NUMERIC.oid: 1231,
}
_LISTED: Final = (
    BOOL, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, VARCHAR, DATE, NUMERIC
)  # fmt: skip

_WORDS: Final = ("assuming", "confidence", "consistent", "independent", "simultaneous", "within")
"""Those that SQL has here and nowhere else."""


@dataclass(frozen=True)
class Table:
    """A dataset as a table.

    Args:
        columns: names with their types.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Names:
    """What a catalogue holds.

    Args:
        settings: names with their values.
    """

    database: str
    user: str
    tables: tuple[Table, ...]
    settings: tuple[tuple[str, str], ...]

    def oid(self, i_table: int) -> int:
        """The number of a table."""
        return _FIRST_TABLE + _STEP * i_table


def catalogue_rows(names: Names) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows of each table of pg_catalog that has any."""
    schemas = {PG_CATALOG: "pg_catalog", PUBLIC: "public", INFORMATION_SCHEMA: "information_schema"}
    yield (
        "pg_namespace",
        [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in schemas.items()],
    )
    yield "pg_class", [_class(names, i, table) for i, table in enumerate(names.tables)]
    yield (
        "pg_attribute",
        [
            _attribute(names.oid(i), k, name, kind)
            for i, table in enumerate(names.tables)
            for k, (name, kind) in enumerate(table.columns, start=1)
        ],
    )
    yield "pg_type", [row for kind in _LISTED for row in _types(kind)]
    yield "pg_am", [{"oid": 2, "amname": "heap", "amhandler": 3, "amtype": "t"}]
    yield "pg_tablespace", [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}]
    yield "pg_database", [_database(names.database)]
    yield "pg_roles", [_role(names.user)]
    yield "pg_user", [{"usename": names.user, "usesysid": OWNER, "usesuper": 0}]
    setting = {"context": "user", "vartype": "string", "source": "default"}
    yield "pg_settings", [{"name": k, "setting": v} | setting for k, v in names.settings]
    word = {"catcode": "U", "barelabel": 1, "catdesc": "unreserved", "baredesc": ""}
    yield "pg_get_keywords", [{"word": text} | word for text in _WORDS]
    owned = {"schemaname": "public", "tableowner": names.user}
    none = dict.fromkeys(("hasindexes", "hasrules", "hastriggers", "rowsecurity"), 0)
    yield "pg_tables", [{"tablename": table.name} | owned | none for table in names.tables]


def information_rows(names: Names) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows of each table of information_schema that has any."""
    yield "information_schema_catalog_name", [{"catalog_name": names.database}]
    yield (
        "schemata",
        [
            {"catalog_name": names.database, "schema_name": name, "schema_owner": names.user}
            for name in ("public", "pg_catalog", "information_schema")
        ],
    )
    yield (
        "tables",
        [
            {
                "table_catalog": names.database,
                "table_schema": "public",
                "table_name": table.name,
                "table_type": "BASE TABLE",
                "is_insertable_into": "NO",
                "is_typed": "NO",
            }
            for table in names.tables
        ],
    )
    yield (
        "columns",
        [
            {
                "table_catalog": names.database,
                "table_schema": "public",
                "table_name": table.name,
                "column_name": name,
                "ordinal_position": k,
                "is_nullable": "NO",
                "data_type": SQL_NAMES[kind.oid],
                "udt_catalog": names.database,
                "udt_schema": "pg_catalog",
                "udt_name": kind.name,
                "dtd_identifier": str(k),
                "is_self_referencing": "NO",
                "is_identity": "NO",
                "is_generated": "NEVER",
                "is_updatable": "NO",
            }
            for table in names.tables
            for k, (name, kind) in enumerate(table.columns, start=1)
        ],
    )


def _class(names: Names, i: int, table: Table) -> Row:
    flags = (
        "relhasindex relisshared relhasrules relhastriggers relhassubclass relrowsecurity "
        "relforcerowsecurity relispartition relhasoids relchecks reltoastrelid relpages "
        "relallvisible reltablespace reloftype relrewrite"
    )
    return {
        **dict.fromkeys(flags.split(), 0),
        "oid": names.oid(i),
        "relname": table.name,
        "relnamespace": PUBLIC,
        "reltype": names.oid(i) + 1,
        "relowner": OWNER,
        "relam": 2,
        "relfilenode": names.oid(i),
        # How many records there are is not known here, which is what -1 says.
        "reltuples": -1.0,
        "relpersistence": "p",
        "relkind": "r",
        "relnatts": len(table.columns),
        "relispopulated": 1,
        "relreplident": "n",
        "relacl": "{=r/" + "".join(c for c in names.user if c.isalnum() or c in "_-") + "}",
    }


def _attribute(table: int, number: int, name: str, kind: Type) -> Row:
    return {
        "attrelid": table,
        "attname": name,
        "atttypid": kind.oid,
        "attlen": kind.size,
        "attnum": number,
        "attcacheoff": -1,
        "atttypmod": -1,
        "attndims": 0,
        "attbyval": int(0 < kind.size <= _BY_VALUE),
        "attalign": _ALIGNED.get(kind.size, "i"),
        "attstorage": _storage(kind),
        "attcompression": "",
        # Every record has a label of every attribute, be it that for a missing value.
        "attnotnull": 1,
        "atthasdef": 0,
        "atthasmissing": 0,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": 0,
        "attislocal": 1,
        "attinhcount": 0,
        "attstattarget": -1,
        "attcollation": 0,
    }


def _storage(kind: Type) -> str:
    if kind.size > 0:
        return "p"
    return "m" if kind == NUMERIC else "x"


def _types(kind: Type) -> Iterator[Row]:
    flags = (
        "typispreferred typrelid typsubscript "
        "typsend typmodin typmodout typanalyze typnotnull typbasetype typndims typcollation"
    )
    plain = {
        **dict.fromkeys(flags.split(), 0),
        "oid": kind.oid,
        "typname": kind.name,
        "typnamespace": PG_CATALOG,
        "typowner": OWNER,
        "typlen": kind.size,
        "typbyval": int(0 < kind.size <= _BY_VALUE),
        "typtype": "b",
        "typcategory": _CATEGORIES.get(kind.oid, "N"),
        "typisdefined": 1,
        "typdelim": ",",
        "typarray": ARRAYS[kind.oid],
        "typelem": CHAR.oid if kind == NAME else 0,
        "typinput": kind.name + ("_in" if kind.oid in _WITH_UNDERSCORE else "in"),
        "typalign": _ALIGNED.get(kind.size, "i"),
        "typstorage": _storage(kind),
        "typtypmod": -1,
    }
    yield plain
    array = {
        "oid": ARRAYS[kind.oid],
        "typname": f"_{kind.name}",
        "typarray": 0,
        "typinput": "array_in",
        "typlen": -1,
        "typbyval": 0,
        "typcategory": "A",
        "typelem": kind.oid,
        "typalign": "d" if kind.size == INT8.size else "i",
        "typstorage": "x",
    }
    yield plain | array


def _database(name: str) -> Row:
    return {
        "oid": _DATABASE,
        "datname": name,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": 0,
        "datallowconn": 1,
        "datconnlimit": -1,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def _role(user: str) -> Row:
    flags = "rolsuper rolcreaterole rolcreatedb rolreplication rolbypassrls"
    return {
        **dict.fromkeys(flags.split(), 0),
        "rolname": user,
        "rolinherit": 1,
        "rolcanlogin": 1,
        "rolconnlimit": -1,
        "rolpassword": "********",
        "oid": OWNER,
    }


TEXTS: Final = Type(1009, "_text", -1)
INT2S: Final = Type(1005, "_int2", -1)
INT2VECTOR: Final = Type(22, "int2vector", -1)
OIDVECTOR: Final = Type(30, "oidvector", -1)
_TYPES: Mapping[str, Type] = {
    "b": BOOL,
    "c": CHAR,
    "f": FLOAT4,
    "h": INT2,
    "i": INT4,
    "l": INT8,
    "n": NAME,
    "o": OID,
    "t": TEXT,
    "v": INT2VECTOR,
    "V": OIDVECTOR,
    "A": Type(1034, "aclitem[]", -1),
    "H": INT2S,
    "T": TEXTS,
}
_FILLED: Mapping[str, str] = {
    "pg_namespace": "oid:o nspname:n nspowner:o nspacl:A",
    "pg_class": "oid:o relname:n relnamespace:o reltype:o reloftype:o relowner:o relam:o "
    "relfilenode:o reltablespace:o relpages:i reltuples:f relallvisible:i reltoastrelid:o "
    "relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:h relchecks:h "
    "relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b "
    "relispopulated:b relreplident:c relispartition:b relrewrite:o relfrozenxid:i relminmxid:i "
    "relacl:A reloptions:T relpartbound:t relhasoids:b",
    "pg_attribute": "attrelid:o attname:n atttypid:o attlen:h attnum:h attcacheoff:i atttypmod:i "
    "attndims:h attbyval:b attalign:c attstorage:c attcompression:c attnotnull:b atthasdef:b "
    "atthasmissing:b attidentity:c attgenerated:c attisdropped:b attislocal:b attinhcount:h "
    "attstattarget:h attcollation:o attacl:A attoptions:T attfdwoptions:T attmissingval:t",
    "pg_type": "oid:o typname:n typnamespace:o typowner:o typlen:h typbyval:b typtype:c "
    "typcategory:c typispreferred:b typisdefined:b typdelim:c typrelid:o typsubscript:o "
    "typelem:o typarray:o typinput:t typoutput:t typreceive:t typsend:o typmodin:o typmodout:o "
    "typanalyze:o typalign:c typstorage:c typnotnull:b typbasetype:o typtypmod:i typndims:i "
    "typcollation:o typdefaultbin:t typdefault:t typacl:A",
    "pg_database": "oid:o datname:n datdba:o encoding:i datlocprovider:c datistemplate:b "
    "datallowconn:b datconnlimit:i datfrozenxid:i datminmxid:i dattablespace:o datcollate:t "
    "datctype:t daticulocale:t daticurules:t datcollversion:t datacl:A",
    "pg_roles": "rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b "
    "rolreplication:b rolconnlimit:i rolpassword:t rolvaliduntil:t rolbypassrls:b rolconfig:T "
    "oid:o",
    "pg_user": "usename:n usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t "
    "valuntil:t useconfig:T",
    "pg_am": "oid:o amname:n amhandler:o amtype:c",
    "pg_tablespace": "oid:o spcname:n spcowner:o spcacl:A spcoptions:T",
    "pg_settings": "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t "
    "vartype:t source:t min_val:t max_val:t enumvals:T boot_val:t reset_val:t sourcefile:t "
    "sourceline:i pending_restart:b",
    "pg_tables": "schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b "
    "hastriggers:b rowsecurity:b",
    "pg_get_keywords": "word:t catcode:c barelabel:b catdesc:t baredesc:t",
}
_NAMED_EMPTY: Mapping[str, str] = {
    "pg_index": "indexrelid:o indrelid:o indnatts:h indnkeyatts:h indisunique:b "
    "indnullsnotdistinct:b indisprimary:b indisexclusion:b indimmediate:b indisclustered:b "
    "indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:v "
    "indcollation:V indclass:V indoption:v indexprs:t indpred:t",
    "pg_constraint": "oid:o conname:n connamespace:o contype:c condeferrable:b condeferred:b "
    "convalidated:b conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:c "
    "confdeltype:c confmatchtype:c conislocal:b coninhcount:h connoinherit:b conkey:H confkey:H "
    "conbin:t",
    "pg_attrdef": "oid:o adrelid:o adnum:h adbin:t",
    "pg_description": "objoid:o classoid:o objsubid:i description:t",
    "pg_shdescription": "objoid:o classoid:o description:t",
    "pg_proc": "oid:o proname:n pronamespace:o proowner:o prolang:o prokind:c prorettype:o "
    "proargtypes:V prosrc:t proretset:b proisstrict:b",
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_collation": "oid:o collname:n collnamespace:o",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:n",
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:c",
    "pg_range": "rngtypid:o rngsubtype:o",
    "pg_auth_members": "roleid:o member:o grantor:o admin_option:b",
    "pg_views": "schemaname:n viewname:n viewowner:n definition:t",
    "pg_matviews": "schemaname:n matviewname:n matviewowner:n definition:t",
    "pg_indexes": "schemaname:n tablename:n indexname:n tablespace:n indexdef:t",
    "pg_sequences": "schemaname:n sequencename:n",
    "pg_extension": "oid:o extname:n extversion:t extnamespace:o",
    "pg_rewrite": "oid:o rulename:n ev_class:o ev_type:c",
    "pg_trigger": "oid:o tgrelid:o tgname:n tgisinternal:b",
    "pg_stat_activity": "datid:o datname:n pid:i usename:n state:t query:t",
    "pg_language": "oid:o lanname:n",
}
_OTHER_EMPTY: Final = (
    "pg_aggregate pg_amop pg_amproc pg_available_extensions pg_cast pg_conversion "
    "pg_default_acl pg_event_trigger pg_file_settings pg_foreign_data_wrapper pg_foreign_server "
    "pg_foreign_table pg_group pg_init_privs pg_largeobject_metadata pg_locks pg_opclass "
    "pg_operator pg_opfamily pg_partitioned_table pg_policies pg_policy pg_prepared_statements "
    "pg_prepared_xacts pg_publication pg_publication_namespace pg_publication_rel "
    "pg_publication_tables pg_replication_slots pg_rules pg_seclabel pg_seclabels pg_sequence "
    "pg_shadow pg_shdepend pg_shseclabel pg_stat_all_tables pg_stat_database "
    "pg_stat_replication pg_stat_user_indexes pg_stat_user_tables pg_statio_user_tables "
    "pg_statistic pg_statistic_ext pg_stats pg_subscription pg_subscription_rel "
    "pg_timezone_abbrevs pg_timezone_names pg_transform pg_ts_config pg_ts_dict pg_ts_parser "
    "pg_ts_template pg_user_mapping pg_user_mappings"
)
_INFORMATION: Mapping[str, str] = {
    "schemata": "catalog_name:n schema_name:n schema_owner:n default_character_set_catalog:n "
    "default_character_set_schema:n default_character_set_name:n sql_path:t",
    "tables": "table_catalog:n table_schema:n table_name:n table_type:t "
    "self_referencing_column_name:n reference_generation:t user_defined_type_catalog:n "
    "user_defined_type_schema:n user_defined_type_name:n is_insertable_into:t is_typed:t "
    "commit_action:t",
    "columns": "table_catalog:n table_schema:n table_name:n column_name:n ordinal_position:i "
    "column_default:t is_nullable:t data_type:t character_maximum_length:i "
    "character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i "
    "datetime_precision:i interval_type:t interval_precision:i character_set_catalog:n "
    "character_set_schema:n character_set_name:n collation_catalog:n collation_schema:n "
    "collation_name:n domain_catalog:n domain_schema:n domain_name:n udt_catalog:n udt_schema:n "
    "udt_name:n scope_catalog:n scope_schema:n scope_name:n maximum_cardinality:i "
    "dtd_identifier:n is_self_referencing:t is_identity:t identity_generation:t "
    "identity_start:t identity_increment:t identity_maximum:t identity_minimum:t "
    "identity_cycle:t is_generated:t generation_expression:t is_updatable:t",
    "information_schema_catalog_name": "catalog_name:n",
}
_INFORMATION_EMPTY: Final = (
    "character_sets check_constraints collations column_privileges column_udt_usage "
    "constraint_column_usage constraint_table_usage domain_constraints domains element_types "
    "enabled_roles foreign_tables key_column_usage parameters referential_constraints "
    "role_table_grants routines sequences table_constraints table_privileges triggers "
    "usage_privileges view_column_usage view_table_usage views"
)

Columns = Mapping[str, Type]


def _columns(words: str) -> Columns:
    pairs = (word.split(":") for word in words.split())
    return {name: _TYPES[letter] for name, letter in pairs}


CATALOGUE: Final[Mapping[str, Columns]] = {
    **{name: _columns(words) for name, words in {**_FILLED, **_NAMED_EMPTY}.items()},
    **{name: {"oid": OID} for name in _OTHER_EMPTY.split()},
}
"""The tables of pg_catalog."""
INFORMATION: Final[Mapping[str, Columns]] = {
    **{name: _columns(words) for name, words in _INFORMATION.items()},
    **{
        name: _columns("table_catalog:n table_schema:n table_name:n")
        for name in _INFORMATION_EMPTY.split()
    },
}
"""Those of information_schema."""
EMPTY: Final = frozenset([*_NAMED_EMPTY, *_OTHER_EMPTY.split(), *_INFORMATION_EMPTY.split()])
"""Tables without rows."""
COLUMN_TYPES: Final[Columns] = {
    name: kind
    for tables in (INFORMATION, CATALOGUE)
    for columns in tables.values()
    for name, kind in columns.items()
}
"""The type of a column by its name, which says it in all of these tables."""


def affinity(kind: Type) -> str:
    """The type of SQLite that compares as this one does."""
    if kind in (BOOL, INT2, INT4, INT8, OID):
        return "INTEGER"
    return "REAL" if kind is FLOAT4 else "TEXT"

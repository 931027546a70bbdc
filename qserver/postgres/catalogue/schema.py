"""The tables of the catalogue: names of columns, each with its type.

A column without one is a text. `EMPTY` are tables that have no rows here; other columns are added
to them when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from qserver.postgres.wire.values import (
    BOOL,
    CHAR,
    FLOAT4,
    INT2,
    INT4,
    INT8,
    NAME,
    OID,
    TEXT,
    Type,
)

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

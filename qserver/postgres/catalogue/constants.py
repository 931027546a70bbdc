"""Functions of the catalogue that give the same whatever they are called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NULLS: Final = {
    "TEXT": "col_description inet_client_addr inet_server_addr obj_description "
    "pg_get_constraintdef pg_get_expr pg_get_function_arguments pg_get_function_result "
    "pg_get_function_identity_arguments pg_get_indexdef pg_get_partkeydef pg_get_ruledef "
    "pg_get_partition_constraintdef pg_get_serial_sequence pg_get_statisticsobjdef_columns "
    "pg_get_triggerdef pg_get_viewdef pg_tablespace_location shobj_description pg_size_pretty",
    "INTEGER": "inet_client_port inet_server_port",
    "UINTEGER": "pg_my_temp_schema pg_relation_filenode",
    "BIGINT": "pg_table_size pg_relation_size pg_total_relation_size pg_indexes_size "
    "pg_database_size",
    "TIMESTAMPTZ": "pg_postmaster_start_time",
    "VOID": "pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock_all "
    "pg_advisory_xact_lock pg_advisory_xact_lock_shared",
}
CONSTANTS: Final[Mapping[str, str]] = {
    name: kind for kind, names in _NULLS.items() for name in names.split()
}
"""Those that give NULL, with its type; of no type an empty text."""
_TRUE: Final = (
    "has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege "
    "has_table_privilege pg_advisory_unlock pg_advisory_unlock_shared "
    "pg_has_role "
    "pg_try_advisory_lock pg_try_advisory_lock_shared"
)
_FALSE: Final = (
    "has_function_privilege has_sequence_privilege pg_is_in_recovery pg_is_other_temp_schema "
    "pg_relation_is_publishable pg_relation_is_updatable row_security_active"
)
TRUE: Final = frozenset(_TRUE.split())
FALSE: Final = frozenset(_FALSE.split())
WRITES: Final = (
    "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "CREATE", "TEMP"
)  # fmt: skip
"""Privileges that nobody has."""

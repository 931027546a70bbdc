"""Reads from a real PostgreSQL what `qserver/data/postgres-16.json` has of its catalogue.

`python -m tests.postgres.facts` writes the file anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "qserver" / "data" / "postgres-16.json"
KEPT = (
    "bool char name int2 int4 int8 oid float4 float8 numeric text varchar date timestamp "
    "timestamptz"
)
"""Types of which rows are kept, with their arrays."""
_RELATIONS = """
SELECT n.nspname::text, c.relname::text, string_agg(a.attname || ':' ||
  CASE t.typname WHEN 'sql_identifier' THEN 'name' WHEN 'cardinal_number' THEN 'int4'
    WHEN 'time_stamp' THEN 'timestamptz'
    WHEN 'int2vector' THEN '_int2' WHEN 'oidvector' THEN '_oid'
    ELSE CASE WHEN t.typname = ANY(string_to_array($1, ' ')) THEN t.typname
      WHEN t.typname IN ('_int2', '_oid') THEN t.typname
      WHEN t.typcategory = 'A' THEN '_text' ELSE 'text' END END ||
  CASE WHEN a.attnotnull THEN '!' ELSE '' END, ' ' ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
GROUP BY 1, 2 ORDER BY 1, 2
"""
_TYPES = """
SELECT to_json(t)::text, format_type(t.oid, NULL) FROM pg_type t
WHERE t.typname = ANY(string_to_array($1, ' ')) OR t.typelem IN
  (SELECT oid FROM pg_type WHERE typname = ANY(string_to_array($1, ' '))) AND t.typcategory = 'A'
  AND t.typname LIKE '\\_%'
ORDER BY t.oid
"""
_OIDS = "SELECT relname::text, oid::int8 FROM pg_class WHERE relnamespace = 11 AND relkind = 'r'"


def facts(cursor: Any) -> dict[str, Any]:
    """The columns of its relations, its types with their names in SQL, and its tables' numbers."""

    def rows(text: str, *values: str) -> list[tuple[Any, ...]]:
        cursor.execute(text, values)
        return list(cursor.fetchall())

    relations: dict[str, dict[str, str]] = {}
    for schema, name, columns in rows(_RELATIONS, KEPT):
        relations.setdefault(schema, {})[name] = columns
    types = [(json.loads(row), name) for row, name in rows(_TYPES, KEPT)]
    return {
        "relations": relations,
        "types": [row for row, _ in types],
        "type_names": {str(row["oid"]): name for row, name in types},
        "oids": dict(sorted((name, int(oid)) for name, oid in rows(_OIDS))),
    }


def main() -> None:
    """Write the file."""
    import adbc_driver_postgresql.dbapi as driver

    from tests.worker.sources.engines import postgres_server

    with (
        postgres_server() as server,
        driver.connect(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        found = facts(cursor)
    FILE.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

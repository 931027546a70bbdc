"""Runs in Superset's environment: draws charts through its query context, prints their data frames.

`python superset_frames.py ADDRESS` prints a line of JSON for each chart: its name and its rows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WEEK = {"column": "d", "grain": "P1W"}
MONTH = {"column": "d", "grain": "P1M"}


def axis(column: str, grain: str) -> dict[str, Any]:
    base = {"columnType": "BASE_AXIS", "expressionType": "SQL", "timeGrain": grain}
    return {"granularity": column, "columns": [{**base, "sqlExpression": column, "label": column}]}


def metric(name: str, text: str) -> dict[str, str]:
    return {"expressionType": "SQL", "sqlExpression": text, "label": name}


AVERAGE = [metric(n, f"AVG({n})") for n in ("age", "age_low", "age_high")]
CHARTS: dict[str, dict[str, Any]] = {
    "count by sex": {"columns": ["sex"]},
    "one number": {},
    "not in": {"columns": ["sex"], "filters": [{"col": "sex", "op": "NOT IN", "val": ["Male"]}]},
    "in": {"columns": ["sex"], "filters": [{"col": "sex", "op": "IN", "val": ["Female"]}]},
    "is null": {"columns": ["sex"], "filters": [{"col": "sex", "op": "IS NULL"}]},
    "top 3": {"columns": ["age"], "orderby": [["count", False]], "row_limit": 3},
    "histogram": {"columns": ["age"], "orderby": [["age", True]]},
    "weeks": axis(**WEEK),
    "months": axis(**MONTH),
    "years": axis("d", "P1Y"),
    "time range": {
        **axis(**WEEK),
        "filters": [{"col": "d", "op": "TEMPORAL_RANGE", "val": "2024-03-04 : 2024-03-18"}],
    },
    "average with its interval": {"columns": ["sex"], "metrics": AVERAGE},
}


def main(address: str) -> None:
    from superset.app import create_app  # type: ignore[import-not-found]

    with create_app().app_context():
        from flask import g
        from flask_appbuilder import Model  # type: ignore[import-not-found]
        from superset import db, security_manager  # type: ignore[import-not-found]
        from superset.common.query_context_factory import QueryContextFactory  # type: ignore[import-not-found]
        from superset.connectors.sqla.models import SqlaTable  # type: ignore[import-not-found]
        from superset.models.core import Database  # type: ignore[import-not-found]

        Model.metadata.create_all(db.engine)
        security_manager.sync_role_definitions()
        role = security_manager.find_role("Admin")
        g.user = security_manager.add_user("ada", "a", "b", "a@example.org", role, password="x")
        database = Database(database_name="q", sqlalchemy_uri=address)
        table = SqlaTable(table_name="people", schema="public", database=database)
        db.session.add_all([database, table])
        db.session.commit()
        table.fetch_metadata()
        db.session.commit()
        for name, chart in CHARTS.items():
            query = {"metrics": ["count"], "row_limit": 1000, "filters": [], "columns": [], **chart}
            context = QueryContextFactory().create(
                datasource={"id": table.id, "type": "table"}, queries=[query], force=True
            )
            found = context.get_df_payload(context.queries[0], force_cached=False)
            frame = json.loads(found["df"].to_json(orient="split", date_format="iso"))
            told = {"name": name, "error": found.get("error"), **frame}
            print("frame " + json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

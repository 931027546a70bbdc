"""Runs in Superset's environment: serves a dashboard of the weekly demo, with intervals.

`python superset_board.py ADDRESS` makes the dashboard in a new Superset, whose settings are on the
path, serves it, and says where.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

ENDS = ("n", "n_low", "n_high")
BY = {
    column: f"SELECT {column}, COUNT(*) AS n FROM flights GROUP BY {column}"
    for column in ("week", "origin")
}
"""Virtual datasets: an inner SELECT that names `n` has its ends, too."""


def _metric(name: str) -> dict[str, str]:
    return {"expressionType": "SQL", "sqlExpression": f"MAX({name})", "label": name}


METRICS = [_metric(name) for name in ENDS]
LINE: Mapping[str, Any] = {
    "viz_type": "echarts_timeseries_line",
    "x_axis": "week",
    "metrics": METRICS,
    "groupby": [],
    "row_limit": 1000,
    "truncateYAxis": True,
    "y_axis_bounds": [None, None],
    "x_axis_time_format": "%d %b",
    "y_axis_format": ",d",
    "show_legend": True,
    "markerEnabled": True,
    "markerSize": 6,
}
TABLE: Mapping[str, Any] = {
    "viz_type": "table",
    "query_mode": "aggregate",
    "groupby": ["origin"],
    "metrics": METRICS,
    "row_limit": 1000,
    "show_cell_bars": False,
    "column_config": {name: {"d3NumberFormat": ",d"} for name in ENDS},
}
CHARTS = (
    ("Flights by week, with the ends of their intervals", "week", LINE, 12, 48),
    ("By airport", "origin", TABLE, 12, 26),
)
"""Name, dataset, what is drawn, and width and height on the board."""


def _layout(charts: list[Any]) -> dict[str, Any]:
    """One chart below the other."""
    found: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": []},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": "Flights"}},
    }
    for chart, (name, _, _, width, height) in zip(charts, CHARTS, strict=True):
        row, place = f"ROW-{chart.id}", f"CHART-{chart.id}"
        found["GRID_ID"]["children"].append(row)
        shown = {"background": "BACKGROUND_TRANSPARENT"}
        found[row] = {"type": "ROW", "id": row, "children": [place], "meta": shown}
        meta = {"chartId": chart.id, "sliceName": name, "width": width, "height": height}
        found[place] = {"type": "CHART", "id": place, "children": [], "meta": meta}
    return found


def main(address: str) -> None:
    from superset.app import create_app  # type: ignore[import-not-found]
    from werkzeug.serving import make_server

    app = create_app()
    with app.app_context():
        from flask_appbuilder import Model  # type: ignore[import-not-found]
        from superset import db, security_manager  # type: ignore[import-not-found]
        from superset.connectors.sqla.models import SqlaTable  # type: ignore[import-not-found]
        from superset.models.core import Database  # type: ignore[import-not-found]
        from superset.models.dashboard import Dashboard  # type: ignore[import-not-found]
        from superset.models.slice import Slice  # type: ignore[import-not-found]

        Model.metadata.create_all(db.engine)
        app.appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        database = Database(database_name="qserver", sqlalchemy_uri=address)
        tables = {
            name: SqlaTable(table_name=f"by {name}", sql=sql, schema="public", database=database)
            for name, sql in BY.items()
        }
        tables["week"].main_dttm_col = "week"
        db.session.add_all([database, *tables.values()])
        db.session.commit()
        for table in tables.values():
            table.fetch_metadata()
        db.session.commit()
        charts = [
            Slice(
                slice_name=name,
                datasource_id=tables[of].id,
                datasource_type="table",
                viz_type=drawn["viz_type"],
                params=json.dumps({"datasource": f"{tables[of].id}__table", **drawn}),
            )
            for name, of, drawn, _, _ in CHARTS
        ]
        board = Dashboard(dashboard_title="Flights", slug="flights", published=True, slices=charts)
        db.session.add_all([*charts, board])
        db.session.commit()
        board.position_json = json.dumps(_layout(charts))
        db.session.commit()
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(
        f"the board is at http://127.0.0.1:{server.server_port}/superset/dashboard/flights/?standalone=3",
        flush=True,
    )
    logging.disable(logging.CRITICAL)  # nobody reads on
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])

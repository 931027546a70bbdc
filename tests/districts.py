"""A town whose districts are joined to regions, with a day of each record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from qserver.query.labels import Level
from tests.deployment import Deployment

DISTRICTS = ("Ash", "Birch", "Cedar", "Elm")
DOMAIN = Domain(
    (
        Attribute("day", "date", periods=Periods("day", "2024-03-01", 10)),
        Attribute(
            "district",
            "labels",
            DISTRICTS,
            levels=(Level("region", ("North", "South"), (0, 0, 1, 1)),),
        ),
    )
)
ROWS: Any = [(f"2024-03-{1 + i % 10:02}", DISTRICTS[i % 3]) for i in range(600)]
IN_REGION = {"North": 400, "South": 200}


def districts(folder: Path, store_url: str) -> Deployment:
    """The town, attached as `people`."""
    return Deployment.make(folder, store_url, limit="1000", rows=ROWS, domain=DOMAIN)

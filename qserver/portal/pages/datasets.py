"""Pages of datasets: the list, and the budget."""

from __future__ import annotations

import json

from flask import Blueprint, g

from qserver.ledger.forecast import BurnDown
from qserver.portal import words
from qserver.portal.broken_down import examples
from qserver.portal.drawing import heat_map
from qserver.portal.render import page
from qserver.records.answer import DatasetStatus
from qserver.service.service import Service

# An attribute of more values is left out of the heat map.
_MOST_VALUES = 10_000


class DatasetPages:
    """The pages of datasets, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get("/")(self.list_datasets)
        routes.get("/datasets/<dataset>/budget")(self.show_budget)

    def list_datasets(self) -> str:
        """The datasets that may be asked."""
        datasets = self._service.datasets()
        found = {d.name: examples(self._service.domain(d.name)) for d in datasets}
        return page("datasets.html", datasets=datasets, examples=found)

    def show_budget(self, dataset: str) -> str:
        """Where the budget went, how fast, and who spent it."""
        status = self._service.dataset(dataset)
        burn_down = self._service.ledger.burn_down(dataset)
        is_owner = g.caller.role == "owner"
        return page(
            "budget.html",
            dataset=status,
            burn_down=burn_down,
            chart=_burn_down_chart(status, burn_down),
            heat=heat_map(losses_of(self._service, dataset)),
            spending=self._service.ledger.spending(dataset) if is_owner else None,
            tab="budget",
        )


def _burn_down_chart(status: DatasetStatus, burn_down: BurnDown) -> str:
    """The remaining budget over time, and its course at the present pace, for the chart."""
    limit = burn_down.limit_nano
    points = [(p.at, (limit - p.spent_nano) / words.NANO) for p in burn_down.points]
    if points:
        points.insert(0, (points[0][0] - 1, limit / words.NANO))
    points.append((burn_down.now, (limit - burn_down.spent_nano) / words.NANO))
    days = burn_down.forecast.days_left
    end = None if days is None else burn_down.now + round(days * 86_400)
    return json.dumps(
        {
            "at": [at for at, _ in points],
            "left": [left for _, left in points],
            "limit": limit / words.NANO,
            "ends": end,
            "name": status.name,
        }
    )


def losses_of(service: Service, dataset: str) -> dict[str, dict[str, int]]:
    """Per attribute and value the largest loss of a cell with it, in nano-epsilon."""
    found = {}
    for attribute in service.domain(dataset).attributes:
        if attribute.size <= _MOST_VALUES:
            report = service.ledger.loss(dataset, where=None, attribute=attribute.name)
            found[attribute.name] = dict(report.by_value or {})
    return found

"""Pages of datasets: the list, the budget, the history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from flask import Blueprint, g, request

from qserver.ledger.forecast import BurnDown
from qserver.portal import words
from qserver.portal.describe import describe_released
from qserver.portal.render import page
from qserver.query.domain import Domain
from qserver.query.requirement import Requirement
from qserver.records.answer import DatasetStatus
from qserver.records.history import HistoryRow, HistoryTable
from qserver.service.service import Service

N_SHADES = 9
MAX_CELLS = 60


@dataclass(frozen=True)
class HeatCell:
    """One or more neighbouring values of an attribute.

    Args:
        label: the value, or the first and the last.
        loss_nano: the largest loss of a cell with one of them.
        shade: from 0 (nothing) to 9 (the top).
    """

    label: str
    loss_nano: int
    shade: int


def heat_cells(
    names: Sequence[str], losses_nano: Sequence[int], *, top_nano: int
) -> tuple[HeatCell, ...]:
    """At most 60 cells for an attribute's values in order; neighbours are joined by their maximum.

    Args:
        names, losses_nano: per value.
        top_nano: what the deepest shade stands for.
    """
    size = -(-len(names) // MAX_CELLS)
    cells = []
    for start in range(0, len(names), size):
        group = names[start : start + size]
        loss = max(losses_nano[start : start + size])
        label = group[0] if len(group) == 1 else f"{group[0]} – {group[-1]}"
        cells.append(HeatCell(label, loss, shade(loss, top_nano)))
    return tuple(cells)


def shade(loss_nano: int, top_nano: int) -> int:
    """The shade of a loss: 0 for no loss, else 1 to 9 in equal parts of the top."""
    if loss_nano <= 0:
        return 0
    return min(N_SHADES, 1 + loss_nano * N_SHADES // max(top_nano, 1))


_PAGE_SIZE = 50
_MAX_ID_DIGITS = 12
# An attribute of more values is left out of the heat map.
_MOST_VALUES = 10_000
_CONFIDENCE = 0.95
# ln(1 / delta): the half-width of the interval at 95 percent is this many scales.
_SCALES = Requirement(1.0, _CONFIDENCE).log_inverse_delta


@dataclass(frozen=True)
class HeatRow:
    """An attribute's row of the heat map."""

    attribute: str
    cells: tuple[HeatCell, ...]
    loss_nano: int

    @property
    def worst(self) -> HeatCell:
        """The cell of the largest loss."""
        return max(self.cells, key=lambda cell: cell.loss_nano)


@dataclass(frozen=True)
class ReleasedLine:
    """A released row or table as a line of the history."""

    id: int
    text: str
    value: str
    half_width: str
    alpha_nano: int


class DatasetPages:
    """The pages of datasets, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get("/")(self.list_datasets)
        routes.get("/datasets/<dataset>/budget")(self.show_budget)
        routes.get("/datasets/<dataset>/history")(self.show_history)

    def list_datasets(self) -> str:
        """The datasets that may be asked."""
        return page("datasets.html", datasets=self._service.datasets())

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
            heat=self._heat(status),
            spending=self._service.ledger.spending(dataset) if is_owner else None,
            tab="budget",
        )

    def show_history(self, dataset: str) -> str:
        """The released rows and tables, which are free to use."""
        status = self._service.dataset(dataset)
        domain = self._service.domain(dataset)
        found = self._service.history.page(dataset, after=_after(), limit=_PAGE_SIZE)
        return page(
            "history.html",
            dataset=status,
            lines=[_line(row, domain) for row in found.rows],
            next_after=found.next_after,
            history_version=found.version,
            tab="history",
        )

    def _heat(self, status: DatasetStatus) -> list[HeatRow]:
        rows = []
        for attribute in self._service.domain(status.name).attributes:
            if attribute.size > _MOST_VALUES:
                continue
            report = self._service.ledger.loss(status.name, where=None, attribute=attribute.name)
            by_value = report.by_value or {}
            losses = list(by_value.values())
            cells = heat_cells(list(by_value), losses, top_nano=status.spent_nano)
            rows.append(HeatRow(attribute.name, cells, max(losses)))
        return rows


def _after() -> int:
    text = request.args.get("after", "")
    is_id = text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS
    return int(text) if is_id else -1


def _line(found: HistoryRow | HistoryTable, domain: Domain) -> ReleasedLine:
    half_width = _SCALES * found.scale
    decimals = words.decimals_for(2 * half_width)
    is_row = isinstance(found, HistoryRow)
    value = words.number(found.value, decimals) if isinstance(found, HistoryRow) else ""
    return ReleasedLine(
        id=found.id,
        text=describe_released(found, domain),
        value=value if is_row else f"{found.n_cells:,} values",  # type: ignore[union-attr]
        half_width=words.high_end(half_width, decimals),
        alpha_nano=found.alpha_nano,
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

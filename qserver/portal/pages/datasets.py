"""Pages of datasets: the list, the budget, and the history with the answer to each release.

A history is what was released, found by its words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from flask import Blueprint, Response, g, request

from qserver.ledger.forecast import BurnDown
from qserver.portal import numbers
from qserver.portal.descriptions import describe_released, question_of_row, question_of_table
from qserver.portal.drawing import heat_map
from qserver.portal.question import examples
from qserver.portal.render import CSV_TYPE, csv_text, download, page
from qserver.query.domain import Domain
from qserver.query.requirement import Requirement
from qserver.records.answer import DatasetStatus
from qserver.records.history import HistoryRow, HistoryTable
from qserver.service.service import Service

# The heat map leaves out an attribute of more values.
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
    points = [(p.at, (limit - p.spent_nano) / numbers.NANO) for p in burn_down.points]
    if points:
        points.insert(0, (points[0][0] - 1, limit / numbers.NANO))
    points.append((burn_down.now, (limit - burn_down.spent_nano) / numbers.NANO))
    days = burn_down.forecast.days_left
    end = None if days is None else burn_down.now + round(days * 86_400)
    return json.dumps(
        {
            "at": [at for at, _ in points],
            "left": [left for _, left in points],
            "limit": limit / numbers.NANO,
            "ends": end,
            "name": status.name,
        }
    )


def losses_of(service: Service, dataset: str) -> dict[str, dict[str, int]]:
    """The largest loss of a cell, in nano-epsilon, by attribute and value."""
    found = {}
    for attribute in service.domain(dataset).attributes:
        if attribute.size <= _MOST_VALUES:
            report = service.ledger.loss(dataset, where=None, attribute=attribute.name)
            found[attribute.name] = dict(report.by_value or {})
    return found


_PAGE_SIZE = 50
_READ_AT_ONCE = 200
_MAX_ID_DIGITS = 12
_MAX_FIND = 200
# The room for it in a page's address.
_MOST_FIELDS = 6000
_CONFIDENCE = 0.95
# ln(1 / delta): the half-width of the interval at 95 percent is this many scales.
_SCALES = Requirement(1.0, _CONFIDENCE).log_inverse_delta


@dataclass(frozen=True)
class ReleasedLine:
    """A released row or table as a line of the history.

    Args:
        fields: the question that it answers, as the query part of an address; '' where a page
            cannot say it.
    """

    id: int
    text: str
    value: str
    half_width: str
    alpha_nano: int
    fields: str


class HistoryPages:
    """The pages of the history, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        routes.get("/datasets/<dataset>/history")(self.show_history)
        routes.get("/datasets/<dataset>/history.csv")(self.download_history)

    def show_history(self, dataset: str) -> str:
        """The released rows and tables, free to use."""
        status, domain = self._service.dataset(dataset), self._service.domain(dataset)
        find = _find()
        lines: list[ReleasedLine] = []
        more = False
        for found, text in self._found(dataset, domain, find, after=_after()):
            if len(lines) == _PAGE_SIZE:
                more = True
                break
            lines.append(_line(found, text, domain, dataset))
        return page(
            "history.html",
            dataset=status,
            lines=lines,
            find=find,
            more=urlencode({"find": find, "after": lines[-1].id}) if more else "",
            history_version=status.version,
            tab="history",
        )

    def download_history(self, dataset: str) -> Response:
        """The whole history as a file."""
        domain = self._service.domain(dataset)
        rows = (
            [
                found.id,
                text,
                found.value if isinstance(found, HistoryRow) else "",
                1 if isinstance(found, HistoryRow) else found.n_cells,
                _SCALES * found.scale,
                numbers.exactly(found.alpha_nano),
            ]
            for found, text in self._found(dataset, domain, _find(), after=-1)
        )
        header = ["id", "what", "value", "n_values", "half_width_95", "epsilon"]
        return download(
            csv_text([header, *rows]), name=f"{dataset}-history.csv", content_type=CSV_TYPE
        )

    def _found(
        self, dataset: str, domain: Domain, find: str, *, after: int
    ) -> Iterator[tuple[HistoryRow | HistoryTable, str]]:
        """The releases after a place that match all words, with their own words."""
        parts, last = find.lower().split(), after
        while True:
            found = self._service.history.page(dataset, after=last, limit=_READ_AT_ONCE)
            for one in found.rows:
                text = describe_released(one, domain)
                if all(part in text.lower() for part in parts):
                    yield one, text
            if found.next_after is None:
                return
            last = found.next_after


def _find() -> str:
    return " ".join(request.args.get("find", "")[:_MAX_FIND].split())


def _after() -> int:
    text = request.args.get("after", "")
    is_id = text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS
    return int(text) if is_id else -1


def _line(
    found: HistoryRow | HistoryTable, text: str, domain: Domain, dataset: str
) -> ReleasedLine:
    half_width = _SCALES * found.scale
    decimals = numbers.decimals_for(2 * half_width)
    if isinstance(found, HistoryRow):
        value = numbers.number(found.value, decimals)
        document = question_of_row(found, domain)
        question = "" if document is None else json.dumps(document)
    else:
        value = f"{found.n_cells:,} values"
        question = question_of_table(found, domain, dataset)
    within = numbers.plain(float(f"{half_width * (1 + 1e-6):.6g}"))
    fields = urlencode({"text": question, "within": within}) if question else ""
    return ReleasedLine(
        id=found.id,
        text=text,
        value=value,
        half_width=numbers.high_end(half_width, decimals),
        alpha_nano=found.alpha_nano,
        fields=fields if len(fields) <= _MOST_FIELDS else "",
    )

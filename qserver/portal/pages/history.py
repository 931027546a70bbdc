"""The history of a dataset: what was released, found by its words, with the answer to each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from qserver.portal import words
from qserver.portal.describe import describe_released, question_of_row, question_of_table
from qserver.portal.render import CSV_TYPE, csv_text, download, page
from qserver.query.domain import Domain
from qserver.query.requirement import Requirement
from qserver.records.history import HistoryRow, HistoryTable
from qserver.service.service import Service

_PAGE_SIZE = 50
_READ_AT_ONCE = 200
_MAX_ID_DIGITS = 12
_MAX_FIND = 200
# An address of a page has room for so much.
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
        """The released rows and tables, which are free to use."""
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
        """The same as a file, all of it."""
        domain = self._service.domain(dataset)
        rows = (
            [
                found.id,
                text,
                found.value if isinstance(found, HistoryRow) else "",
                1 if isinstance(found, HistoryRow) else found.n_cells,
                _SCALES * found.scale,
                words.exactly(found.alpha_nano),
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
        """What was released after a place and has all the words, with its words."""
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
    decimals = words.decimals_for(2 * half_width)
    if isinstance(found, HistoryRow):
        value = words.number(found.value, decimals)
        document = question_of_row(found, domain)
        question = "" if document is None else json.dumps(document)
    else:
        value = f"{found.n_cells:,} values"
        question = question_of_table(found, domain, dataset)
    length = words.plain(float(f"{2 * half_width * (1 + 1e-6):.6g}"))
    fields = urlencode({"text": question, "length": length}) if question else ""
    return ReleasedLine(
        id=found.id,
        text=text,
        value=value,
        half_width=words.high_end(half_width, decimals),
        alpha_nano=found.alpha_nano,
        fields=fields if len(fields) <= _MOST_FIELDS else "",
    )

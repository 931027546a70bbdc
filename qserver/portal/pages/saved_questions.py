"""The saved questions of an account: their answers from history, and the price of new ones."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from flask import Blueprint, g, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from qserver.errors import (
    CapacityError,
    InputError,
    NotEstimableError,
    NotFoundError,
    StoreError,
)
from qserver.portal.faults import Fault, fault_of
from qserver.portal.form_reader import OneQuestion, read_question
from qserver.portal.pages.answers import AnswerView
from qserver.portal.pages.ask import PRICE_LATER, look_of, quote_of, view_of, words_of
from qserver.portal.pages.sql import TableView
from qserver.portal.question import FormQuestion
from qserver.portal.render import page
from qserver.query.domain import Domain
from qserver.query.question import Question, Workload
from qserver.query.sealed_periods import growing
from qserver.records.answer import DatasetStatus
from qserver.service.cells.answer_cells import workload_of
from qserver.service.datasets import SavedQuestion
from qserver.service.service import Service
from qserver.service.statements import Statements

# How many earlier periods are tried for a known answer.
_MOST_BACK = 4

State = Literal["present", "earlier", "rough", "unknown", "refused", "looking"]


@dataclass(frozen=True)
class SavedCard:
    """A saved question with history's answer.

    Args:
        state: whether the answer is as exact as asked; of an earlier period; less exact; there is
            none; the question cannot be asked any more; or what is known of it is being looked at.
        view: the answer, where there is one.
        as_of: the last period that it counts, where data arrive over time; else ''.
        fault: why it cannot be asked.
    """

    saved: SavedQuestion
    state: State
    heading: str
    view: AnswerView | TableView | None = None
    as_of: str = ""
    fault: Fault | None = None

    @property
    def is_table(self) -> bool:
        """Whether the answer is a table."""
        return isinstance(self.view, TableView)


class SavedPages:
    """The pages of saved questions, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, routes: Blueprint) -> None:
        """Add the routes."""
        place = "/datasets/<dataset>/saved"
        routes.get(place)(self.list_saved)
        routes.post(place)(self.save)
        routes.post(f"{place}/<number>/remove")(self.remove)
        routes.get(f"{place}/<number>/price")(self.show_saved_price)

    def list_saved(self, dataset: str) -> str:
        """The saved questions with their answers from history; nothing is spent."""
        status, account = self._service.dataset(dataset), g.caller.account
        cards = [self._card(status, saved) for saved in self._service.saved.all(dataset, account)]
        self._note_seen(dataset, account, cards)
        is_open = any(card.state == "looking" for card in cards)
        return page("saved.html", dataset=status, cards=cards, is_open=is_open, tab="saved")

    def save(self, dataset: str) -> BaseResponse:
        """Save the question of an answer."""
        fields = _fields(request.form.get("question", ""))
        domain = self._service.domain(dataset)
        question = FormQuestion.of(fields, domain)
        read_question(self._service, dataset, question)
        last = self._service.dataset(dataset).periods
        saved = self._service.saved.keep(
            dataset,
            g.caller.account,
            fields=question.encoded(),
            title=" ".join(request.form.get("title", "").split()),
            as_of=(last.last if last is not None else None) or "",
        )
        return redirect(f"/portal/datasets/{dataset}/saved#saved-{saved.id}", 303)

    def remove(self, dataset: str, number: str) -> BaseResponse:
        """Forget a saved question."""
        self._service.saved.remove(dataset, g.caller.account, number)
        return redirect(f"/portal/datasets/{dataset}/saved", 303)

    def show_saved_price(self, dataset: str, number: str) -> str:
        """The price of a saved question's new answer, with a button that asks it."""
        saved = self._service.saved.one(dataset, g.caller.account, number)
        if saved is None:
            raise NotFoundError("saved question", number[:80])
        question = FormQuestion.of(_fields(saved.fields), self._service.domain(dataset))
        if look_of(self._service, dataset, question):
            return page(PRICE_LATER, method="get", again=request.path)
        return page(
            "part_saved_price.html",
            dataset=self._service.dataset(dataset),
            question=question,
            quote=quote_of(self._service, dataset, question),
            pairs=question.pairs(),
        )

    def _note_seen(self, dataset: str, account: str, cards: list[SavedCard]) -> None:
        """Note up to which period whole answers were seen, if that is new."""
        as_of = {
            card.saved.id: card.as_of
            for card in cards
            if card.state in ("present", "earlier") and card.as_of != card.saved.as_of
        }
        if as_of:
            # A page that only reads must not fail because a write fails.
            with contextlib.suppress(StoreError):
                self._service.saved.seen(dataset, account, as_of)

    def _card(self, status: DatasetStatus, saved: SavedQuestion) -> SavedCard:
        domain = self._service.domain(status.name)
        question = FormQuestion.of(_fields(saved.fields), domain)
        try:
            if look_of(self._service, status.name, question):
                return SavedCard(saved, "looking", _written(saved, question))
            return self._answered(status, saved, question, domain)
        except (InputError, CapacityError) as exc:
            heading = _written(saved, question)
            return SavedCard(saved, "refused", heading, fault=fault_of(exc))

    def _answered(
        self, status: DatasetStatus, saved: SavedQuestion, question: FormQuestion, domain: Domain
    ) -> SavedCard:
        """The best answer of history: for now, for an earlier period, or less exactly than
        asked."""
        last = (status.periods.last if status.periods is not None else None) or ""
        if self._is_free(status.name, question, at=""):
            view = view_of(self._service, status.name, question)
            return SavedCard(saved, "present", view.heading.text, view, last)
        for at in _earlier(domain, saved.as_of):
            if look_of(self._service, status.name, question, at=at):
                return SavedCard(saved, "looking", _written(saved, question))
            with contextlib.suppress(InputError):
                if self._is_free(status.name, question, at=at):
                    view = view_of(self._service, status.name, question, at=at)
                    return SavedCard(saved, "earlier", view.heading.text, view, at)
        try:
            view = view_of(self._service, status.name, question)
        except NotEstimableError:
            return SavedCard(saved, "unknown", words_of(self._service, status.name, question))
        is_known = not isinstance(view, TableView) or view.n_unknown < view.n_numbers
        state: State = "rough" if is_known else "unknown"
        return SavedCard(saved, state, view.heading.text, view if is_known else None, last)

    def _is_free(self, dataset: str, question: FormQuestion, *, at: str) -> bool:
        read = read_question(self._service, dataset, question, at=at)
        asked: Question | Workload
        if isinstance(read, OneQuestion):
            asked = read.question
        else:
            asked = workload_of(Statements(self._service).asked(dataset, read.statement))
        return self._service.insight.is_free(dataset, asked)


def _fields(text: str) -> MultiDict[str, str]:
    return MultiDict(parse_qsl(text))


def _written(saved: SavedQuestion, question: FormQuestion) -> str:
    """A question as its asker wrote it."""
    return question.text.strip() or saved.fields


def _earlier(domain: Domain, seen: str) -> list[str]:
    """Sealed periods before the last one whose answer may be known, latest first."""
    attribute = growing(domain)
    if attribute is None or not seen:
        return []
    names = attribute.value_names[: max(attribute.n_sealed - 1, 0)]
    first = names.index(seen) if seen in names else len(names)
    tried = list(names[first:][-_MOST_BACK:][::-1])
    return tried if seen in tried or seen not in names else [*tried, seen]

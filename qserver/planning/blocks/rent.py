"""The rent: what own rows alone would have cost, and how the best base's price rose with it.

Both are functions of the paid questions in their order. Neither depends on the lattice that blocks
are planned on, so they stay when levels are learnt anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from qserver.inference.rows.tail import safe_half_width
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.allocation import alpha_nano_up
from qserver.planning.blocks.wants import octave_of
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO, Charge
from qserver.records.paid_question import FittedBase, PaidQuestion

_JOB = "alone"


@dataclass
class OwnRowsAlone:
    """The price of measuring each question's own row alone, with nothing shared.

    It is a ledger of fresh rows, with the largest alpha needed per row. The rule compares with it;
    nobody is charged. Rows are taken in by batches of 16, counted from the first. A ledger's figure
    may depend on which charges it was given together, so batches make it depend on the questions
    only.
    """

    _alpha_nano: dict[str, int] = field(default_factory=dict)
    _ledger: CellLedger | None = None
    _waiting: list[Charge] = field(default_factory=list)
    settled_nano: int = 0

    def add(self, holdings: Holdings, own: Own) -> None:
        """Add a question's own row."""
        for charge in self._charges(own):
            before = self._alpha_nano.get(own.query.key, 0)
            self._alpha_nano[own.query.key] = before + charge.alpha_nano
            self._waiting.append(charge)
        if len(self._waiting) >= PLANNER.alone_batch:
            ledger = self._of(holdings)
            ledger.extend(self._waiting)
            self._waiting = []
            self.settled_nano = ledger.spent_nano

    def with_row(self, holdings: Holdings, own: Own) -> int:
        """Price of all with one more row, in nano-epsilon; nothing is changed."""
        more = self._charges(own)
        return self._of(holdings).spent_after([*self._waiting, *more])

    def _charges(self, own: Own) -> list[Charge]:
        alpha = alpha_nano_up(safe_half_width(np.ones(1), own.confidence) / own.half_width)
        rise = alpha - self._alpha_nano.get(own.query.key, 0)
        return [Charge(own.query.row, rise, _JOB)] if rise > 0 else []

    def _of(self, holdings: Holdings) -> CellLedger:
        if self._ledger is None:
            self._ledger = _ledger_like(holdings)
        return self._ledger


def _ledger_like(holdings: Holdings) -> CellLedger:
    """An empty ledger of the same neighbours."""
    neighbours = holdings.ledger.neighbours
    return CellLedger(
        holdings.ledger.sizes,
        relation=neighbours.relation,
        records_per_person=neighbours.records_per_person,
        null_cell=neighbours.null_cell,
    )


@dataclass(frozen=True)
class Own:
    """A question's own row: what it would cost alone."""

    query: Primitive
    half_width: float
    confidence: float

    @property
    def octave(self) -> int:
        """Its class of precision."""
        return octave_of(half_width=self.half_width, confidence=self.confidence)


@dataclass(frozen=True)
class Fit:
    """The price of the best base of a class when the class's own rows cost `rent_nano`."""

    rent_nano: int
    octave: int
    price_nano: float


@dataclass
class Course:
    """The rent of each class of precision, and the prices of the bases fitted while it rose.

    The rent of a class is that of its questions and of all looser ones: those that a base of the
    class answers.
    """

    _paid: list[Own] = field(default_factory=list)
    _fits: list[Fit] = field(default_factory=list)
    _rents: dict[int | None, OwnRowsAlone] = field(default_factory=dict)

    def follow(self, paid: Sequence[PaidQuestion], holdings: Holdings) -> None:
        """Take in the paid questions that are new."""
        for question in paid[len(self._paid) :]:
            own = Own(question.form, question.half_width, question.confidence)
            for fitted in question.finest_bases:
                rent = self.rent_nano(holdings, own, octave=fitted.octave)
                self._fits.append(Fit(rent, fitted.octave, _price_nano(fitted, holdings)))
            self._paid.append(own)
            for octave, rows in self._rents.items():
                self._add(rows, octave, own, holdings)

    def rent_nano(self, holdings: Holdings, own: Own, *, octave: int | None = None) -> int:
        """The price of own rows alone with this one, of a class and looser ones, or of all."""
        if octave not in self._rents:
            rows = self._rents[octave] = OwnRowsAlone()
            for old in self._paid:
                self._add(rows, octave, old, holdings)
        return self._rents[octave].with_row(holdings, own)

    def _add(self, rows: OwnRowsAlone, octave: int | None, own: Own, holdings: Holdings) -> None:
        # Own rows alone that cost far more than any base decide nothing any more.
        dearest = max((f.price_nano for f in self._fits), default=inf)
        is_looser = octave is None or own.octave <= octave
        if is_looser and rows.settled_nano <= PLANNER.plenty * dearest:
            rows.add(holdings, own)

    def price_nano(self, octave: int, *, rent_nano: float) -> float:
        """What the best base of this class cost when own rows alone cost no more than this.

        It is 0 if none was fitted by then. Twice the precision costs twice, own rows and bases
        alike, so the tightest class of which a base was fitted by then stands for this one.
        """
        found = (-inf, 0.0)
        for fit in self._fits:
            times = 2.0 ** (octave - fit.octave)
            if times >= 1.0 and fit.rent_nano * times <= rent_nano and fit.octave >= found[0]:
                found = fit.octave, fit.price_nano * times
        return found[1]


def _price_nano(fitted: FittedBase, holdings: Holdings) -> float:
    return NANO * sum(holdings.cost_of(parts) * alpha for parts, alpha in fitted.base)

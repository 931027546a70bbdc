"""The rent: the cost of own rows alone, and the best base's price as it rose.

Both are functions of the paid questions in their order. Neither depends on the lattice that blocks
are planned on, so both survive new levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.constants import LIMITS
from qserver.planning.blocks.wants import normal_z, octave_of
from qserver.planning.constants import PLANNER
from qserver.planning.fresh_row import alpha_nano_up
from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO, Charge
from qserver.records.paid_question import FittedBase, PaidQuestion
from qserver.records.state import State

_JOB = "alone"


@dataclass
class OwnRowsAlone:
    """The price of measuring each question's own row alone, with nothing shared.

    It is a ledger of fresh rows, with the largest alpha needed per row. The rule compares with it;
    nobody is charged. Rows are added when a price is asked.
    """

    _ledger: CellLedger
    _alpha_nano: dict[str, int] = field(default_factory=dict)
    _new: list[Charge] = field(default_factory=list)
    _least_nano: int | None = None

    @classmethod
    def beside(cls, ledger: CellLedger) -> OwnRowsAlone:
        """No rows yet, in the domain and under the neighbours of another ledger."""
        sizes, neighbours = ledger.sizes, ledger.neighbours
        return cls(CellLedger.like(sizes, neighbours, settle_steps=LIMITS.rough_steps))

    def copy(self) -> OwnRowsAlone:
        """A copy: rows of it leave this one as it is."""
        alphas, new = dict(self._alpha_nano), list(self._new)
        return replace(self, _ledger=self._ledger.copy(), _alpha_nano=alphas, _new=new)

    def state(self) -> State:
        """State that `from_state` reads."""
        found = State.of_parts({"ledger": self._caught_up().state()})
        keys = np.array([key.encode() for key in self._alpha_nano], dtype="S32")
        alphas = np.fromiter(self._alpha_nano.values(), dtype=np.int64)
        return State(found.head, {**found.arrays, "keys": keys, "alphas": alphas})

    @classmethod
    def from_state(cls, state: State, ledger: CellLedger) -> OwnRowsAlone:
        """Restore the rows.

        Args:
            ledger: of the snapshot, for domain and neighbours.
        """
        sizes, neighbours = ledger.sizes, ledger.neighbours
        alone = CellLedger.from_state(
            state.part("ledger"),
            sizes=sizes,
            neighbours=neighbours,
            settle_steps=LIMITS.rough_steps,
        )
        keys = state.arrays["keys"].astype(str).tolist()
        alphas = dict(zip(keys, state.arrays["alphas"].tolist(), strict=True))
        return cls(alone, alphas)

    def add(self, own: Own) -> None:
        """Add a question's own row."""
        for charge in self._charges(own):
            before = self._alpha_nano.get(own.query.key, 0)
            self._alpha_nano[own.query.key] = before + charge.alpha_nano
            self._new.append(charge)
            self._least_nano = None

    def _caught_up(self) -> CellLedger:
        """The ledger with all rows.

        Large batches are quicker. While the ledger is exact, prices do not depend on batches; once
        it is not, it stays so, and rows are added one by one. Seldom a batch is exact where its
        rows one by one are not: the price then depends on when it was asked for.
        """
        n = len(self._new)
        while n > 1 and self._ledger.exact:
            whole = self._ledger.copy()
            whole.extend(self._new[:n])
            if whole.exact:
                self._ledger, self._new = whole, self._new[n:]
            n = min(n // 2, len(self._new))
        while self._new:
            self._ledger.take_in(self._new[0])
            del self._new[0]
        return self._ledger

    def with_row(self, own: Own | None) -> int:
        """Quick bound of the price of all rows and one more, in nano-epsilon."""
        return self._caught_up().spent_after(self._charges(own))

    def settled_with_row(self, own: Own | None) -> int:
        """The same with the searched price that plans are charged; it depends on rows alone."""
        ledger = self._caught_up()
        if self._least_nano is None:
            self._least_nano = ledger.least_nano
        return ledger.spent_after(self._charges(own), before=self._least_nano)

    def _charges(self, own: Own | None) -> list[Charge]:
        if own is None:
            return []
        law = self._ledger.neighbours.law
        sharpness = safe_half_width(np.ones(1), own.confidence, law) / own.half_width
        alpha = alpha_nano_up(law.charge_of_sharpness(sharpness))
        rise = alpha - self._alpha_nano.get(own.query.key, 0)
        return [Charge(own.query.row, rise, _JOB)] if rise > 0 else []


class Precise:
    """A half-width, in records of a row, that must hold at a confidence."""

    half_width: float
    confidence: float

    @property
    def sharpness(self) -> float:
        """One over the standard deviation of a normal error with this half-width."""
        return normal_z(self.confidence) / self.half_width

    def half_width_at(self, confidence: float) -> float:
        """The half-width of the same precision at another confidence."""
        if confidence == self.confidence:
            return self.half_width
        return normal_z(confidence) / self.sharpness

    @property
    def octave(self) -> int:
        """Its class of precision."""
        return octave_of(half_width=self.half_width, confidence=self.confidence)


@dataclass(frozen=True)
class Precision(Precise):
    """A precision without a row: no row needs its costly normal form."""

    half_width: float
    confidence: float

    @classmethod
    def of(cls, paid: PaidQuestion) -> Precision:
        """That of a paid question."""
        return cls(paid.half_width, paid.confidence)


@dataclass(frozen=True)
class Own(Precise):
    """A question's own row, priced alone."""

    query: Primitive
    half_width: float
    confidence: float

    @classmethod
    def of(cls, paid: PaidQuestion) -> Own:
        """The own row of a paid question."""
        return cls(paid.form, paid.half_width, paid.confidence)


@dataclass(frozen=True)
class Fit:
    """The price of the best base of a class when the class's own rows cost `rent_nano`."""

    rent_nano: int
    octave: int
    price_nano: float


@dataclass
class Course:
    """The rent of each class of precision, and the prices of the bases fitted while it rose.

    The rent of a class is that of its questions and of all looser ones: a base of the class answers
    all of these.
    """

    paid: list[PaidQuestion] = field(default_factory=list)
    _fits: list[Fit] = field(default_factory=list)
    _rents: dict[int | None, OwnRowsAlone] = field(default_factory=dict)
    _tightest: dict[int, Precise] = field(default_factory=dict)
    _n_at_fit: dict[int, int] = field(default_factory=dict)

    def state(self) -> State:
        """State that `from_state` reads."""
        octaves = list(self._rents)
        head = {
            "n_paid": len(self.paid),
            "fits": [[f.rent_nano, f.octave, f.price_nano] for f in self._fits],
            "octaves": octaves,
        }
        return State.of_parts({f"rent {o}": self._rents[o].state() for o in octaves}, head)

    @classmethod
    def from_state(cls, state: State, paid: Sequence[PaidQuestion], ledger: CellLedger) -> Course:
        """Restore the course.

        Args:
            paid: all paid questions.
            ledger: of the snapshot, for domain and neighbours.
        """
        head = state.head
        rents = {
            octave: OwnRowsAlone.from_state(state.part(f"rent {octave}"), ledger)
            for octave in head["octaves"]
        }
        found = cls(list(paid[: head["n_paid"]]), [Fit(*f) for f in head["fits"]], rents)
        found._tightest = tightest(map(Precision.of, found.paid))
        for n, question in enumerate(found.paid):
            found._n_at_fit.update((fitted.octave, n) for fitted in question.finest_bases)
        return found

    def take_in(
        self, question: PaidQuestion, holdings: Holdings, *, has_bases: bool = True
    ) -> None:
        """Add a paid question.

        Args:
            has_bases: whether the bases fitted for it count.
        """
        own = Own.of(question)
        for fitted in question.finest_bases if has_bases else ():
            rent = self.rent_nano(holdings, octave=fitted.octave)
            self._fits.append(Fit(rent, fitted.octave, _price_nano(fitted, holdings)))
            self._n_at_fit[fitted.octave] = len(self.paid)
        if own.octave not in self._tightest:
            self._begin(own.octave)
        self.paid.append(question)
        self._tightest = tightest([*self._tightest.values(), own])
        for octave, rows in self._rents.items():
            self._add(rows, octave, own)

    def _begin(self, octave: int) -> None:
        """Begin the rows of a new class: so far they are those of the next looser class."""
        looser = max((o for o in self._tightest if o < octave), default=None)
        if looser is not None and looser in self._rents and octave not in self._rents:
            self._rents[octave] = self._rents[looser].copy()

    @property
    def octaves(self) -> list[int]:
        """Paid classes of precision, tightest first."""
        return sorted(self._tightest, reverse=True)

    def n_at_fit(self, octave: int) -> int:
        """How many questions were paid for when a base of this class was last written down."""
        return self._n_at_fit.get(octave, 0)

    def tightest(self, octave: int, *, confidence: float) -> float:
        """The half-width, at this confidence, of a class's tightest question."""
        return self._tightest[octave].half_width_at(confidence)

    def rent_nano(
        self, holdings: Holdings, own: Own | None = None, *, octave: int | None = None
    ) -> int:
        """The price of own rows alone, of a class and looser ones or of all, and with this one."""
        if octave not in self._rents:
            rows = self._rents[octave] = OwnRowsAlone.beside(holdings.ledger)
            for old in self.paid:
                self._add(rows, octave, Own.of(old))
        rows = self._rents[octave]
        # The spend is compared with the rows of all questions: as plans are charged.
        return rows.settled_with_row(own) if octave is None else rows.with_row(own)

    def _add(self, rows: OwnRowsAlone, octave: int | None, own: Own) -> None:
        if octave is None or own.octave <= octave:
            rows.add(own)

    def price_nano(self, octave: int, *, rent_nano: float, power: int = 1) -> float:
        """Price of the best base of this class when own rows cost no more than this.

        It is 0 if none was fitted by then. Doubling the precision doubles the cost of rows and
        bases alike (four times under Gaussian noise), so the tightest class fitted by then stands
        for this one.

        Args:
            power: of the law of the noise.
        """
        found = (-inf, 0.0)
        for fit in self._fits:
            times = 2.0 ** (power * (octave - fit.octave))
            if times >= 1.0 and fit.rent_nano * times <= rent_nano and fit.octave >= found[0]:
                found = fit.octave, fit.price_nano * times
        return found[1]


def n_learnt_from(n_paid: int) -> int:
    """The number of paid questions, the first ones, that levels are learnt from."""
    return step_of(min(n_paid, PLANNER.most_fitted))


def step_of(n: int) -> int:
    """The number with no more than three binary digits before its zeros that `n` has reached."""
    shift = max(0, n.bit_length() - PLANNER.digits)
    return n >> shift << shift


def tightest(asked: Iterable[Precise]) -> dict[int, Precise]:
    """The tightest requirement of each class of precision; the first of equals."""
    found = dict[int, Precise]()
    for own in asked:
        if own.octave not in found or own.sharpness > found[own.octave].sharpness:
            found[own.octave] = own
    return found


def _price_nano(fitted: FittedBase, holdings: Holdings) -> float:
    """Upper bound of a base's price, by numbers of parts."""
    return NANO * sum(
        holdings.most_cost_of({axis for axis, _ in parts}) * alpha for parts, alpha in fitted.base
    )

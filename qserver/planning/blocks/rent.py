"""The rent: the cost of own rows alone, and the best base's price as it rose.

Both are functions of the paid questions in their order. Neither depends on the lattice that blocks
are planned on, so both survive new levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from qserver.planning.blocks.own_rows import Own, OwnRows, Precise, Precision
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.records.charge import NANO
from qserver.records.paid_question import FittedBase, PaidQuestion
from qserver.records.state import State


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

    Args:
        rows: the own rows of all paid questions.
        scope: the attributes that the questions are within; None for all questions.
    """

    rows: OwnRows = field(default_factory=OwnRows)
    scope: frozenset[int] | None = None
    paid: list[PaidQuestion] = field(default_factory=list)
    _fits: list[Fit] = field(default_factory=list)
    _tightest: dict[int, Precise] = field(default_factory=dict)
    _n_at_fit: dict[int, int] = field(default_factory=dict)

    def state(self) -> State:
        """State that `from_state` reads."""
        fits = [[f.rent_nano, f.octave, f.price_nano] for f in self._fits]
        head = {"n_paid": len(self.paid), "fits": fits}
        return State.of_parts({"rows": self.rows.state()}, head)

    @classmethod
    def from_state(cls, state: State, paid: Sequence[PaidQuestion]) -> Course:
        """Restore the course of all questions.

        Args:
            paid: all paid questions.
        """
        head, rows = state.head, OwnRows.from_state(state.part("rows"))
        found = cls(rows, None, list(paid[: head["n_paid"]]), [Fit(*f) for f in head["fits"]])
        found._tightest = tightest(map(Precision.of, found.paid))
        for n, question in enumerate(found.paid):
            found._n_at_fit.update((fitted.octave, n) for fitted in question.finest_bases)
        return found

    def has(self, question: PaidQuestion) -> bool:
        """Whether the question is one of these."""
        return self.scope is None or self.scope.issuperset(question.row.scope)

    def take_in(self, question: PaidQuestion, holdings: Holdings) -> None:
        """Add a paid question."""
        own, is_all = Own.of(question), self.scope is None
        for fitted in question.finest_bases if is_all else ():
            rent = self.rent_nano(holdings, octave=fitted.octave)
            self._fits.append(Fit(rent, fitted.octave, _price_nano(fitted, holdings)))
            self._n_at_fit[fitted.octave] = len(self.paid)
        self.paid.append(question)
        self._tightest = tightest([*self._tightest.values(), own])
        if is_all:
            self.rows.add(own, holdings.ledger.neighbours)

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
        self,
        holdings: Holdings,
        own: Own | None = None,
        *,
        octave: int | None = None,
        effort: Effort | None = None,
    ) -> int:
        """The price of own rows alone, of a class and looser ones or of all, and with this one."""
        neighbours, scope = holdings.ledger.neighbours, self.scope
        return self.rows.price_nano(neighbours, own, octave=octave, scope=scope, effort=effort)

    def price_nano(self, octave: int, *, rent_nano: float, power: int = 1) -> float:
        """Price of the best base of this class when own rows cost no more than this.

        It is 0 if none was fitted by then. The latest one of the tightest class fitted by then
        stands for this class.
        """
        found = self.fits_by(octave, rent_nano=rent_nano, power=power)
        return max(reversed(found), key=lambda fit: fit.octave).price_nano if found else 0.0

    def fits_by(self, octave: int, *, rent_nano: float, power: int = 1) -> list[Fit]:
        """Bases fitted when own rows cost no more than this, as if for this class.

        Doubling the precision doubles the cost of rows and bases alike (four times under Gaussian
        noise).

        Args:
            power: of the law of the noise.
        """
        found = list[Fit]()
        for fit in self._fits:
            times = 2.0 ** (power * (octave - fit.octave))
            if times >= 1.0 and fit.rent_nano * times <= rent_nano:
                found.append(replace(fit, price_nano=fit.price_nano * times))
        return found


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

"""Buy blocks at once for questions that were asked of earlier data on the same domain.

The questions that were paid for on earlier data are public. If the owner lets a dataset begin with
their demand, the base that they would have needed is known before anything is asked. A part of it
replaces a row only if all of this holds:

    repaid      With that waste the base costs no more than was spent on the earlier questions, on
                the snapshot that spent most. Both are those of the class and of looser ones.
    answered    The base answers the query at the tightest precision of a class of the earlier
                questions. All other questions are decided by rent or buy.
    wasteful    The row would waste more than a quarter of phi of the base's price: a tenth by
                default, where rent or buy lets rows waste the part phi of it.

The decision uses that precision, not the asked length: as for rent or buy, a shorter length never
costs less. A tighter question gets a row of what the part leaves.

The base is fitted to the earlier questions as if nothing had been bought, and a part is raised
above it only as far as an exact tail needs. So what is bought of a base costs about the base at
most, however few of its questions return.

**What it can cost.** If the questions return, rows waste a tenth of the base's price before its
parts are bought, so the spend is about 1.1 times the base. If they stop after the first purchase,
it may be 11 times what rows would have cost. The two are linked. A buyer at price B after rows for
x B pays (1 + x) B if the forecast was right. If the questions stop then, (1 + x) B takes the place
of x B: 1 + 1/x times as much.

References:
    Purohit, Svitkina, Kumar, "Improving online algorithms via ML predictions", NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.planning.blocks.demand import Demand
from qserver.planning.blocks.levels import Learner
from qserver.planning.blocks.needed_part import ByRows, Need, PurchaseOffer, need_of
from qserver.planning.blocks.own_rows import Precise, Precision
from qserver.planning.blocks.rent import tightest
from qserver.planning.blocks.star import Star, everything, fit_star, fitting, serves
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.query.question import Question
from qserver.query.requirement import DEFAULT_PHI
from qserver.records.charge import NANO
from qserver.records.paid_question import PaidQuestion


class _Unbought(Holdings):
    """Holdings without any bought table."""

    @cached_property
    def alphas(self) -> Mapping[BlockKey, float]:
        """Alphas of public totals alone."""
        return dict.fromkeys(self.engine.tables.public_blocks, PLANNER.public_alpha)


@dataclass
class EarlierDemand:
    """Questions paid for on earlier snapshots. No state except caches."""

    snapshots: tuple[tuple[PaidQuestion, ...], ...]
    phi: float = DEFAULT_PHI
    _learner: Learner = field(default_factory=Learner)
    _bases: dict[int, Star | None] = field(default_factory=dict)
    _lattice: Lattice | None = None

    @cached_property
    def asked(self) -> tuple[PaidQuestion, ...]:
        """All of them, or the last ones where there are many."""
        return tuple(chain.from_iterable(self.snapshots))[-PLANNER.most_fitted :]

    def offer(
        self,
        holdings: Holdings,
        question: Question,
        *,
        direct: PurchaseOffer,
        by_rows: ByRows,
        allowed_nano: int,
    ) -> PurchaseOffer | None:
        """The cheapest part of an earlier base that replaces `direct`, or None.

        Args:
            direct: the cheapest way by rows alone.
            by_rows: the cheapest way by rows at any half-width of the row.
        """
        if question.measure == "only_this" or direct.price_nano == 0:
            return None
        view = self._learner.view(holdings, self.asked)
        need = need_of(question, view, holdings, Effort(PLANNER.fit_work))
        if need is None:
            return None
        offers = (self._part(need, octave, direct, by_rows) for octave in self._tightest)
        fit = (o for o in offers if o is not None and o.priced.spent_after_nano <= allowed_nano)
        return min(fit, key=lambda o: o.price_nano, default=None)

    def _part(
        self, need: Need, octave: int, direct: PurchaseOffer, by_rows: ByRows
    ) -> PurchaseOffer | None:
        """The part of the base of a class for the asked length, if it is due."""
        then = need.at(self._tightest[octave].half_width_at(need.want.confidence))
        row = by_rows(then.want.half_width)
        base = None if row is None else self._base(need.holdings, octave)
        if row is None or base is None or not serves(need.holdings, base, [then.want]):
            return None
        after = everything(need.holdings, base, row.priced).spent_after_nano
        if after <= self._most_nano(base):
            return None
        raises = then.part(base)
        return need.part_beside(base, raises, then=then, direct=direct) if raises else None

    @cached_property
    def _tightest(self) -> dict[int, Precise]:
        """The tightest question of each class."""
        return tightest(map(Precision.of, self.asked))

    def _base(self, view: Holdings, octave: int) -> Star | None:
        """The base for the earlier questions of this class and looser ones, if rows cost more."""
        if view.lattice is not self._lattice:
            self._lattice, self._bases = view.lattice, {}
        if octave not in self._bases:
            unbought = _Unbought(view.engine, view.ledger, view.limit_nano, view.cells)
            base = _best_base(unbought, self.asked, octave)
            is_repaid = base is not None and self._most_nano(base) <= self._spent_nano(octave)
            self._bases[octave] = base if is_repaid else None
        return self._bases[octave]

    def _most_nano(self, base: Star) -> float:
        """The price of a base plus the waste allowed before it is bought."""
        return (1.0 + PLANNER.earlier_part * self.phi) * base.price * NANO

    def _spent_nano(self, octave: int) -> int:
        """Spending on questions of this class and looser ones, on the snapshot that spent most."""
        return max(
            sum(paid.price_nano for paid in asked if Precision.of(paid).octave <= octave)
            for asked in self.snapshots
        )


def _best_base(unbought: Holdings, asked: Sequence[PaidQuestion], octave: int) -> Star | None:
    """The best base found for these questions up to a class; None if some cannot be served."""
    demand = Demand()
    for paid in asked:
        if Precision.of(paid).octave <= octave:
            demand.take_in(paid, unbought, has_bases=False)
    wants = demand.wanted.wants
    if not wants or demand.forgotten(octave) or len(fitting(unbought, wants)) < len(wants):
        return None
    return fit_star(unbought, wants, effort=Effort(PLANNER.fit_work))

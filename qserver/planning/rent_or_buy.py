"""Rent or buy: measure what is asked, or blocks that also answer later questions.

Renting is measuring rows for the one question, in the cheapest way. Once renting again would waste
more than phi times the price of the best base for what was asked so far, blocks are bought
instead: of that base only what the query needs. Whatever is bought can be raised later for the
difference, so nothing is bought in advance. A row that is a cell of a block is not lost when the
block is bought: the waste counts what the base would still cost beside it.

phi balances a short life (rent) against a long one: in the long run the spend is about 1 + phi
times that of the base. Every decision is a function of public facts: paid questions in their
order, live measurements, the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isinf

from qserver.charge import NANO
from qserver.inference.lattice.pattern import Lattice
from qserver.paid import Base, PaidQuestion
from qserver.planning.base import never
from qserver.planning.bought import Bought, roomy_half_width
from qserver.planning.demand import Demand, want_of
from qserver.planning.own_cells import OwnCells
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.star import Star, fit_star, fitting, useful_blocks, uses
from qserver.planning.wanted import Want
from qserver.primitive import Primitive
from qserver.requirement import Requirement

DEFAULT_PHI = 0.4
_REFIT = 1.03
_SEARCH_STEPS = 12
_LARGEST_PART = 64.0


@dataclass(frozen=True, eq=False)
class Choice:
    """What the rule says of one question.

    Args:
        blocks: what to buy in place of the direct plan; None to rent.
        base: the base, where it was fitted anew.
    """

    blocks: Priced | None = None
    base: Base | None = None


@dataclass
class RentOrBuy:
    """The rule with the demand that it goes by.

    Args:
        phi: see above, > 0; infinite for never buying.
    """

    phi: float = DEFAULT_PHI
    cells: OwnCells = field(default_factory=OwnCells)
    demand: Demand = field(default_factory=Demand)
    _paid: list[PaidQuestion] = field(default_factory=list)
    _n_known: int = 0
    _lattice: Lattice | None = None

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self._paid.append(paid)

    def propose(
        self,
        bought: Bought,
        query: Primitive,
        requirement: Requirement,
        *,
        direct: Priced,
        allowed_nano: int,
        out_of_time: Callable[[], bool] = never,
    ) -> Choice:
        """Whether to buy blocks, and which, where `direct` is the cheapest way without them.

        Nothing is changed by it but caches.

        Args:
            allowed_nano: what may be spent in all.
            out_of_time: once it says so, the best that was found so far is taken.
        """
        if isinf(self.phi):
            return Choice()
        self._follow(bought)
        target = roomy_half_width(query, requirement)
        want = want_of(bought, query.row, half_width=target, confidence=requirement.confidence)
        is_beyond = direct.spent_after_nano > allowed_nano and not self.demand.stars
        if want is None or is_beyond or direct.price_nano == 0 or out_of_time():
            return Choice()
        old = self.demand.stars.get(want.octave)
        # More requirements never make a base cheaper: where the old price allows rent, so does
        # the new one.
        if old is not None and not self._is_wasteful(bought, want.octave, direct, old):
            return Choice()
        star = self._star(bought, want, old, out_of_time)
        base = None if star is old else star.to_base(bought)
        if star is not old and not self._is_wasteful(bought, want.octave, direct, star):
            return Choice(base=base)
        plan = _as_needed(bought, star, query, want, out_of_time)
        is_affordable = plan is not None and plan.spent_after_nano <= allowed_nano
        return Choice(plan if is_affordable else None, base)

    def _follow(self, bought: Bought) -> None:
        """Bring the demand up to date, from the beginning on another lattice."""
        if bought.lattice is not self._lattice:
            self._lattice, self._n_known, self.demand = bought.lattice, 0, Demand()
        for paid in self._paid[self._n_known :]:
            self.demand.take_in(paid, bought)
        self._n_known = len(self._paid)

    def _is_wasteful(self, bought: Bought, octave: int, direct: Priced, star: Star) -> bool:
        """Whether renting once more would lose more than phi times the star's price for good."""
        rented = self.demand.rented(octave) + direct.price_nano
        if rented <= self.phi * star.price * NANO:
            return False
        rows = direct.purchase.rows
        tables = bought.tables(bought.raises(star.alphas), beside=rows)
        everything = bought.priced(Purchase(rows, tables)).spent_after_nano
        return everything - star.price * NANO > self.phi * star.price * NANO

    def _star(
        self, bought: Bought, want: Want, old: Star | None, out_of_time: Callable[[], bool]
    ) -> Star:
        """The best base for what was asked in this class and looser ones."""
        wanted = self.demand.with_want(want)
        wants = fitting(bought, wanted.up_to(want.octave))
        if old is not None and float(uses(bought, old, wants).max()) <= _REFIT:
            return old
        return fit_star(bought, wants, old=old, out_of_time=out_of_time)


def _as_needed(
    bought: Bought,
    star: Star,
    query: Primitive,
    want: Want,
    out_of_time: Callable[[], bool],
) -> Priced | None:
    """Of the star only what this question needs, by the exact tail."""
    useful = useful_blocks(bought, star, want)

    def meets(part: float) -> bool:
        known = bought.known(query, bought.raises(star.alphas, part=part, only=useful))
        return known.half_width(want.confidence) <= want.half_width

    low, high = 0.0, 1.0
    while not meets(high):
        low, high = high, high * 1.25
        if high > _LARGEST_PART or out_of_time():
            return None
    for _ in range(_SEARCH_STEPS):
        if out_of_time():
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    raises = bought.raises(star.alphas, part=high, only=useful)
    return bought.priced(Purchase(tables=bought.tables(raises)))

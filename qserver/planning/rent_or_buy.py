"""Rent or buy: measure what is asked, or blocks that also answer later questions.

Renting is measuring the query's own row. Once renting again would waste more than phi times the
price of the best base for what was asked so far, blocks are bought instead: of that base only what
the query needs. Whatever is bought can be raised later for the difference, so nothing is bought in
advance. A row that is a cell of a block is not lost when the block is bought: the waste counts
what the base would still cost beside it.

phi balances a short life (rent) against a long one: in the long run the spend is about 1 + phi
times that of the base. Every decision is a function of questions, requirements and alphas.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from qserver.charge import NANO
from qserver.inference.lattice.beside import known_of
from qserver.inference.lattice.pattern import Pattern
from qserver.planning.blocks_ledger import Purchase
from qserver.planning.bought import Bought, row_half_width
from qserver.planning.recombined import SeenPredicates
from qserver.planning.star import Star, fit_star, useful_blocks, uses
from qserver.planning.wanted import MAX_WANTED, Want, Wanted
from qserver.primitive import Primitive
from qserver.requirement import Requirement

DEFAULT_PHI = 0.4
_REFIT = 1.03
_SEARCH_STEPS = 12
_LARGEST_PART = 64.0

Kind = Literal["free", "direct", "blocks", "refused"]


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """How a question is met.

    Args:
        kind: `free` (history suffices), `direct` (own rows), `blocks`, or `refused`.
        purchase: what is raised; None for nothing.
        price_nano: rise of what is spent; of what it would be, where refused.
    """

    kind: Kind
    purchase: Purchase | None
    price_nano: int
    spent_after_nano: int


@dataclass
class RentOrBuy:
    """The planner of one snapshot.

    Args:
        bought: blocks, rows and ledger; `bought.record` takes in what was carried out.
        limit_nano: what may be spent in all.
        phi: see above, > 0.
        wanted: requirements seen that matter.
        rent_nano: what was spent on own rows, by class of precision.
    """

    bought: Bought
    limit_nano: int
    phi: float = DEFAULT_PHI
    wanted: Wanted = field(default_factory=Wanted)
    seen: SeenPredicates = field(default_factory=SeenPredicates)
    rent_nano: dict[int, int] = field(default_factory=dict)
    _stars: dict[int, Star] = field(default_factory=dict)

    def ask(self, query: Primitive, requirement: Requirement) -> BlockPlan:
        """The plan for one question. It is spent by `bought.record(plan.purchase)`.

        A question that cannot be paid for is refused, and forgotten.
        """
        bought = self.bought
        if bought.is_met(query, requirement):
            return BlockPlan("free", None, 0, bought.ledger.spent_nano)
        direct = self.priced("direct", Purchase({}, (bought.own_row(query, requirement),)))
        pattern = bought.pattern(query)
        if pattern is None or (direct.spent_after_nano > self.limit_nano and not self._stars):
            return self.affordable(direct)
        half_width = row_half_width(query, requirement)
        want = Want.of(pattern, half_width=half_width, requirement=requirement)
        self._remember(want)
        if direct.price_nano == 0:
            return direct
        plan = self.affordable(self._rent_or_buy(want, pattern, direct))
        if plan.kind == "refused":
            self.wanted.forget([want])
        return plan

    def priced(self, kind: Kind, purchase: Purchase) -> BlockPlan:
        """A purchase with its price."""
        ledger = self.bought.ledger
        after = ledger.spent_after(purchase)
        return BlockPlan(kind, purchase, after - ledger.spent_nano, after)

    def affordable(self, plan: BlockPlan) -> BlockPlan:
        """The plan, or its refusal."""
        if plan.spent_after_nano <= self.limit_nano:
            return plan
        return BlockPlan("refused", None, plan.price_nano, self.bought.ledger.spent_nano)

    def _rent_or_buy(self, want: Want, pattern: Pattern, direct: BlockPlan) -> BlockPlan:
        old = self._stars.get(want.octave)
        # More requirements never make a base cheaper: where the old price allows rent, so does
        # the new one.
        if old is None or self._is_wasteful(want.octave, direct, old):
            star = self._star(want.octave)
        else:
            star = old
        if self._is_wasteful(want.octave, direct, star):
            plan = self._as_needed(star, want, pattern)
            if plan is not None and plan.spent_after_nano <= self.limit_nano:
                return plan
        rented = self.rent_nano.get(want.octave, 0)
        if direct.spent_after_nano <= self.limit_nano:
            self.rent_nano[want.octave] = rented + direct.price_nano
        return direct

    def _remember(self, want: Want) -> None:
        """Want it, and what it suggests."""
        self.wanted.add(want)
        for other in self.seen.combined_with(want.pattern):
            self.wanted.add(replace(want, pattern=other))

    def _is_wasteful(self, octave: int, direct: BlockPlan, star: Star) -> bool:
        """Whether renting once more would lose more than phi times the star's price for good."""
        rented = sum(r for o, r in self.rent_nano.items() if o <= octave) + direct.price_nano
        if rented <= self.phi * star.price * NANO:
            return False
        rows = direct.purchase.rows if direct.purchase is not None else ()
        everything = Purchase(self.bought.raises(star.alphas), rows)
        waste = self.bought.ledger.spent_after(everything) - star.price * NANO
        return waste > self.phi * star.price * NANO

    def _star(self, octave: int) -> Star:
        """The best base for what was asked in this class and looser ones."""
        wants = self.wanted.up_to(octave)
        star = self._stars.get(octave)
        if star is not None and float(uses(self.bought, star, wants).max()) <= _REFIT:
            return star
        star = fit_star(self.bought, wants, old=star)
        if len(self.wanted.wants) > MAX_WANTED:
            order = np.argsort(-uses(self.bought, star, wants))[: MAX_WANTED // 2]
            self.wanted.forget([w for i, w in enumerate(wants) if i not in set(order)])
        self._stars[octave] = star
        return star

    def _as_needed(self, star: Star, want: Want, pattern: Pattern) -> BlockPlan | None:
        """Of the star only what this question needs, by the exact tail."""
        useful = useful_blocks(self.bought, star, want)

        def trial(part: float) -> Purchase | None:
            raised = self.bought.raises(star.alphas, part=part, only=useful)
            known = known_of(self.bought.blocks_with(raised), pattern, 0.0)
            return (
                Purchase(raised) if known.half_width(want.confidence) <= want.half_width else None
            )

        low, high = 0.0, 1.0
        found = trial(high)
        while found is None and high < _LARGEST_PART:
            low, high = high, high * 1.25
            found = trial(high)
        for _ in range(_SEARCH_STEPS if found is not None else 0):
            middle = 0.5 * (low + high)
            less = trial(middle)
            low, high = (low, middle) if less is not None else (middle, high)
            found = less if less is not None else found
        return None if found is None else self.priced("blocks", found)

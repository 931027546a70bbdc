"""Rent or buy: measure what is asked, or blocks that also answer later questions.

Renting is measuring a row: in the cheapest way by rows alone, or beside coarse blocks what is left
of the query after rounding. As much is bought, and as early, as keeps the spend within a fixed
ratio of what own rows alone would have cost so far; and nothing of a base before a row would waste
a part phi of its price. First the coarse blocks of it become affordable, and rows of the rest,
which weigh on few cells; then finer ones. Once own rows alone would have cost as much as the best
base for what was asked, had nothing been bought before, blocks are bought anyhow: of the base only
what the query needs. Whatever is bought can be raised later for the difference. A row that is a
cell of a block is not lost when the block is bought, and does not count as waste.

Every cell pays for a table, whereas own rows about different records share what they cost. So early
blocks leave room for one more row like this one, about records where own rows alone would cost
nothing more. Beside the whole base it is room for what that still lacks and for what it grew by
with this question, if that is less: one that has stopped growing answers most of what comes. While
nothing of a base is there, or where attributes have no coarser levels, the whole of it is bought
even so where one more row would be the greater evil: a larger spend in the end, over the base's
price, than now over own rows alone.

A base that was fitted to few questions may be of little use for the next ones. Where attributes
have no coarser levels and a single block that is as fine as all others costs little more than the
best base, that block is the base.

Once anything is spent, a base that would take much of what may be spent at all counts for a quarter
of that: else rent would use up the limit before blocks seemed worth their price.

Every decision is a function of public facts: paid questions in their order, live measurements, the
ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isinf

from qserver.inference.tables.blocks.pattern import Lattice
from qserver.planning.blocks.demand import Demand, depth_of, want_of
from qserver.planning.blocks.learner import Learner
from qserver.planning.blocks.needed_part import Need, PurchaseOffer
from qserver.planning.blocks.on_answer_lattice import confirmed
from qserver.planning.blocks.star import Star, fit_star, fitting, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.own_cells import OwnCells
from qserver.planning.purchase import Priced, Purchase
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.paid_question import DEFAULT_PHI, FittedBase, PaidQuestion


@dataclass(frozen=True, eq=False)
class Decision:
    """What the rule says of one question.

    Args:
        offer: what to buy in place of the direct plan; None for that.
        bases: those that were fitted anew.
    """

    offer: PurchaseOffer | None = None
    bases: tuple[FittedBase, ...] = ()


@dataclass
class RentOrBuy:
    """The rule with the demand that it goes by.

    Args:
        phi: least waste, as a part of a base's price, at which its blocks are bought, > 0;
            infinite for never buying.
        ratio: most that may be spent to buy blocks early, over what own rows alone would cost.
        learner: of levels that end where questions do; None for regular levels alone.
    """

    phi: float = DEFAULT_PHI
    ratio: float = PLANNER.early_ratio
    cells: OwnCells = field(default_factory=OwnCells)
    demand: Demand = field(default_factory=Demand)
    learner: Learner | None = field(default_factory=Learner)
    _paid: list[PaidQuestion] = field(default_factory=list)
    _n_known: int = 0
    _lattice: Lattice | None = None

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self._paid.append(paid)

    def views(
        self,
        holdings: Holdings,
        asked: Sequence[PaidQuestion],
        effort: Effort,
    ) -> list[Holdings]:
        """What was bought on every lattice that a base for these questions may be planned on.

        The present comes first.

        Args:
            effort: counts the work.
        """
        if self.learner is None or isinf(self.phi):
            return [holdings]
        return self.learner.views(holdings, self._paid, asked, effort)

    def propose(
        self,
        holdings: Holdings,
        question: Question,
        *,
        direct: Priced,
        allowed_nano: int,
        effort: Effort,
    ) -> Decision:
        """What to buy, where `direct` is the cheapest way by rows alone.

        Nothing is changed by it but caches.

        Args:
            allowed_nano: what may be spent in all.
            effort: counts the work. Once it is spent, the best offer found so far is taken.
        """
        if isinf(self.phi):
            return Decision()
        answered = holdings
        if self.learner is not None:
            holdings = self.learner.view(holdings, self._paid)
        self._follow(holdings)
        target, confidence = question.roomy_half_width, question.confidence
        want = want_of(holdings, question.row, half_width=target, confidence=confidence)
        is_beyond = direct.spent_after_nano > allowed_nano and not self.demand.stars
        if want is None or is_beyond or direct.price_nano == 0 or effort.is_spent:
            return Decision()
        fits = direct.spent_after_nano <= allowed_nano
        left = inf if fits else allowed_nano - holdings.ledger.spent_nano
        need = Need(holdings, question.row, want, effort, left_nano=left)
        return _Proposal(self, need, direct, allowed_nano, answered).choice()

    def _follow(self, holdings: Holdings) -> None:
        """Bring the demand up to date, from the beginning on another lattice."""
        if holdings.lattice is not self._lattice:
            self._lattice, self._n_known, self.demand = holdings.lattice, 0, Demand()
        for paid in self._paid[self._n_known :]:
            self.demand.take_in(paid, holdings)
        self._n_known = len(self._paid)


class _Proposal:
    """One question weighed: the state of the rule, what the question needs, the direct plan."""

    def __init__(
        self, rule: RentOrBuy, need: Need, direct: Priced, allowed_nano: int, answered: Holdings
    ) -> None:
        self._rule, self._need, self._allowed_nano = rule, need, allowed_nano
        self._direct, self._holdings, self._answered = direct, need.holdings, answered
        self._wanted: Wants = rule.demand.with_want(need.want)
        self._stars = dict(rule.demand.stars)
        self._fitted: dict[tuple[int, int], FittedBase] = {}
        self._depth = depth_of(need.holdings)

    def choice(self) -> Decision:
        """The cheapest row, or what a base offers in its place."""
        row = PurchaseOffer(self._direct)
        beside = self._confirmed(self._need.row({}))
        if beside is not None and beside.priced.price_nano < row.priced.price_nano:
            row = beside
        found = self._bought_instead(row.priced) or row
        bases = tuple(self._fitted.values())
        return Decision(None if found.priced is self._direct else found, bases)

    def _bought_instead(self, row: Priced) -> PurchaseOffer | None:
        """What to buy in place of a row, from the finest base to the coarsest; None for the row."""
        for depth in range(self._depth, 0, -1):
            if self._need.effort.is_spent:
                break
            offer = self._base(depth, row)
            # Where there are blocks enough it offers a row, and that was weighed before.
            if offer is not None and offer.priced.purchase.tables:
                offer = self._confirmed(offer)
            if offer is None or not offer.priced.purchase.tables:
                continue
            if offer.priced.spent_after_nano > self._allowed_nano:
                continue
            if self._is_worthwhile(offer.priced, row, depth):
                return offer
        return None

    def _confirmed(self, offer: PurchaseOffer | None) -> PurchaseOffer | None:
        """The offer so that it holds on the lattice that answers are given on."""
        if offer is None or self._answered is self._holdings:
            return offer
        return confirmed(self._answered, self._need.query, self._need.want, offer)

    def _is_worthwhile(self, blocks: Priced, row: Priced, depth: int) -> bool:
        """Whether these blocks, of a base no finer than this, are bought in place of a row."""
        if blocks.price_nano <= row.price_nano or row.spent_after_nano > self._allowed_nano:
            return True
        alone = self._alone_nano
        if self._is_due(alone):
            return True
        early, with_next = self._rule.ratio, PLANNER.next_ratio
        # With coarser blocks to go on with, it is not one more row or the whole.
        if depth == self._depth and (self._is_flat or not self._is_begun):
            later = self._later_ratio(row)
            early, with_next = max(early, later), max(with_next, later)
        spent = blocks.spent_after_nano
        within = spent <= early * alone
        return within and spent + self._next_nano(blocks, depth) <= with_next * alone

    @property
    def _is_flat(self) -> bool:
        """Whether no attribute has levels between all its values and single ones."""
        return self._depth == 1

    @property
    def _is_begun(self) -> bool:
        """Whether any block is bought."""
        return bool(self._holdings.engine.tables.alpha_nano)

    @cached_property
    def _alone_nano(self) -> int:
        """What own rows alone would have cost, this question's too."""
        return self._rule.demand.alone_nano(self._holdings, self._need.query, self._need.want)

    def _next_nano(self, blocks: Priced, depth: int) -> float:
        """What the next question may cost beside these blocks where own rows alone would not.

        At most a row like this one. Where the whole base is bought, what that still lacks and what
        it grew by with this question.
        """
        own = Demand().alone_nano(self._holdings, self._need.query, self._need.want)
        octave = self._need.want.octave
        old = self._rule.demand.stars.get((octave, depth))
        if depth < self._depth or old is None:
            return own
        star = self._star(octave, depth)
        lacks = self._everything(star).price_nano - blocks.price_nano
        grown = (star.price - old.price) * NANO
        return min(own, max(0.0, lacks) + max(0.0, grown))

    def _later_ratio(self, row: Priced) -> float:
        """The spend over the base's price once that is bought in parts, after this row.

        At most; 0 where it is too early to tell.
        """
        star = self._star(self._need.want.octave, self._depth)
        price = star.price
        if self._is_begun:
            if self._alone_nano < PLANNER.near_part * price * NANO:
                return 0.0
            price = min(price, self._anew.price)
        return self._everything(star, row).spent_after_nano / (price * NANO) + PLANNER.in_parts

    def _everything(self, star: Star, row: Priced | None = None) -> Priced:
        """All that the star has more than there is, after this row."""
        rows = () if row is None else row.purchase.rows
        tables = self._holdings.tables(self._holdings.raises(star.alphas), beside=rows)
        return self._holdings.priced(Purchase(rows, tables))

    def _is_due(self, alone_nano: int) -> bool:
        """Whether own rows alone would have cost as much as the best base for what was asked.

        The base that is bought from counts what other questions may need, and blocks that it would
        do without had they not been bought. What the spend is held against has neither.
        """
        # More requirements never make a base cheaper.
        old = self._stars.get((self._tightest, self._depth))
        if old is not None and alone_nano < PLANNER.near_part * self._worth_nano(old):
            return False
        star = self._star(self._tightest, self._depth)
        if alone_nano >= self._worth_nano(star):
            return True
        if alone_nano < PLANNER.near_part * self._worth_nano(star):
            return False
        return alone_nano >= self._worth_nano(self._anew)

    @property
    def _tightest(self) -> int:
        """The tightest class asked for."""
        wanted, octave = self._rule.demand.octave, self._need.want.octave
        return octave if wanted is None else max(wanted, octave)

    @cached_property
    def _anew(self) -> Star:
        """The best base for the questions alone, had nothing been bought before."""
        star = self._star(self._tightest, self._depth)
        asked = [*self._rule.demand.asked.up_to(self._tightest), self._need.want]
        return fit_star(
            self._holdings,
            fitting(self._holdings, asked),
            old=star,
            anew=True,
            effort=self._need.effort,
        )

    def _worth_nano(self, star: Star) -> float:
        price = star.price * NANO
        # Before anything is spent no rent has used up any of the limit: a first question that is
        # dear by itself is no reason to buy for others that may never come.
        if not self._holdings.ledger.spent_nano:
            return price
        return min(price, PLANNER.limit_part * self._allowed_nano)

    def _base(self, depth: int, row: Priced) -> PurchaseOffer | None:
        """What the question needs of the best base of blocks no finer than this.

        None as long as the row beside the base would waste no more than phi times its worth.
        """
        octave, fits = self._need.want.octave, row.spent_after_nano <= self._allowed_nano
        # More requirements never make a base cheaper: where the old one allows a row, so does it.
        old = self._stars.get((octave, depth))
        least = 0.0 if old is None else self._rule.phi * self._worth_nano(old)
        if fits and row.spent_after_nano <= least:
            return None
        if not fits and old is None:
            return None
        # Where a row is too dear already no base is fitted: what there is either serves or not.
        star = self._star(octave, depth) if fits or old is None else old
        if fits and not self._is_wasteful(star, row):
            return None
        if depth == self._depth:
            return self._need.whole(star)
        coarse = self._need.want.to_depth(depth, share=PLANNER.coarse_share)
        return self._need.beside(star, coarse=coarse)

    def _is_wasteful(self, star: Star, row: Priced) -> bool:
        """Whether with this row more than phi times the star's worth is lost for good."""
        everything = self._everything(star, row).spent_after_nano
        return everything - star.price * NANO > self._rule.phi * self._worth_nano(star)

    def _star(self, octave: int, depth: int) -> Star:
        """The best base for what was asked in this class and looser ones, no finer than this."""
        wants = fitting(self._holdings, self._wants(octave, depth))
        old = self._stars.get((octave, depth))
        if old is not None and float(uses(self._holdings, old, wants).max()) <= PLANNER.refit_use:
            return old
        # Where there are coarser levels, what may come is about parts of these as well.
        spare, effort = PLANNER.spare if self._is_flat else 0.0, self._need.effort
        star = fit_star(self._holdings, wants, old=old, spare=spare, effort=effort)
        self._stars[octave, depth] = star
        self._fitted[octave, depth] = FittedBase(octave, depth, star.to_base(self._holdings))
        return star

    def _wants(self, octave: int, depth: int) -> list[Want]:
        wants = self._wanted.up_to(octave)
        if depth == self._depth:
            return wants
        return [w.to_depth(depth, share=PLANNER.coarse_share) for w in wants]

"""A base for many questions, fitted on several lattices and scaled on the answering lattice.

A base may be planned on levels without measurements: those learnt from paid questions, or those
that end where these questions do. Answers then use a lattice through the measured partitions, with
other padding. So a base is fitted on the planning lattice and scaled on the answering one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.tables.blocks.noisy_blocks import Blocks
from qserver.inference.tables.blocks.pattern import BlockKey, as_box
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.levels import left_on, seen_on
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.blocks.star import Star, fit_star, fitting, uses
from qserver.planning.blocks.wants import Want, Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.planner import paid_question
from qserver.planning.purchase import Priced, Purchase
from qserver.query.class_grid import MAX_TABLE_CELLS, ClassGrid, ProductPartition, class_grid
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question


@dataclass(frozen=True, eq=False)
class Scaling:
    """The search for the least scale at which a purchase of blocks meets all questions.

    Args:
        holdings: on the later answering lattice.
        part_of: alphas of the blocks at a scale, in nano-epsilon; rising.
        effort: counts the work. Once it is spent, the least scale found so far is taken.
        is_dear: whether the purchase at a scale is too dear. The price rises with the scale, so the
            search ends without a result once a failing scale is too dear.
    """

    holdings: Holdings
    part_of: Callable[[float], Mapping[BlockKey, int]]
    effort: Effort
    is_dear: Callable[[float], bool] = lambda _part: False

    def meets(self, part: float, questions: Sequence[Question]) -> bool:
        """Whether the purchase at this scale meets every question."""
        return self.missed(part, questions, most=1) == []

    def missed(
        self, part: float, questions: Sequence[Question], *, most: int | None = None
    ) -> list[Question]:
        """The unmet questions, in order; of similar questions one is tried.

        Args:
            most: number of questions after which the search ends.
        """
        blocks = self.holdings.engine.tables.blocks_with(self.part_of(part))
        found, tried = list[Question](), dict[Hashable, bool]()
        for q in questions:
            kind = self.holdings.likeness(q)
            if kind not in tried:
                tried[kind] = self._is_met(q, blocks)
            if not tried[kind]:
                found.append(q)
                if len(found) == most:
                    break
        return found

    def _is_met(self, q: Question, blocks: Blocks) -> bool:
        self.effort.add(PLANNER.evaluation_work)
        known = self.holdings.beside(q.row, blocks, own=self.holdings.own(q.row)).known
        return known.is_within(q.roomy_half_width, q.confidence)

    def least_part(self, ordered: Sequence[Question]) -> float | None:
        """Approximate least scale that meets all questions, searched on the binding ones.

        None if no tried scale meets them, or all that do are too dear.

        Args:
            ordered: the questions, roughly hardest first.
        """
        hardest, part = list(ordered[: PLANNER.sample]), 0.0
        while (found := self._least(hardest, part)) is not None:
            part, failing = found, self.missed(found, ordered)
            if not failing:
                return part
            hardest = failing + hardest
        return None

    def _least(self, questions: Sequence[Question], low: float) -> float | None:
        high = max(low, 1.0)
        # Continue even if the effort is spent: a base that misses a question would be lost.
        while not self.meets(high, questions):
            low, high = high, high * 1.1
            if high > PLANNER.largest or self.is_dear(low):
                return None
        while high - low > PLANNER.small_part * high and not self.effort.is_spent:
            middle = 0.5 * (low + high)
            if self.meets(middle, questions):
                high = middle
                continue
            low = middle
            if self.is_dear(low):
                return None
        return high


@dataclass(frozen=True, eq=False)
class Base:
    """Blocks on the later answering lattice.

    Args:
        holdings: the holdings on that lattice.
        alphas: alphas of the blocks, in epsilon per record.
    """

    holdings: Holdings
    alphas: Mapping[BlockKey, float]

    def raises(self, part: float) -> dict[BlockKey, int]:
        """Alphas in nano-epsilon of the blocks to raise for this part of the base."""
        return self.holdings.raises(self.alphas, part=part)

    def priced(self, part: float) -> Priced:
        """This part of the base with its price."""
        return self.holdings.priced(Purchase(tables=self.holdings.tables(self.raises(part))))


def answered_with(holdings: Holdings, partitions: Iterable[ProductPartition]) -> Holdings:
    """Holdings on the answering lattice after these partitions are measured."""
    return seen_on(holdings, holdings.engine.tables.lattice_with(partitions))


@dataclass(frozen=True, eq=False)
class Places:
    """Map from blocks of a planning lattice to the answering lattice.

    Args:
        holdings: the holdings on the answering lattice.
        by_block: per block of the planning lattice, its block on the answering lattice.
    """

    holdings: Holdings
    by_block: Mapping[BlockKey, BlockKey]


def places_of(holdings: Holdings, view: Holdings, blocks: Sequence[BlockKey]) -> Places | None:
    """Map these blocks to the answering lattice; None if one has no place.

    Args:
        holdings: on the present answering lattice.
        view: the holdings on the lattice of the blocks.
    """
    if view is holdings:
        return Places(holdings, {b: b for b in blocks})
    partitions = {b: view.partition_of(b) for b in blocks}
    after = answered_with(holdings, partitions.values())
    found = dict[BlockKey, BlockKey]()
    for block, partition in partitions.items():
        place = after.engine.tables.block_of(partition)
        if place is None:
            return None
        found[block] = place
    return Places(after, found)


def answered_base(holdings: Holdings, view: Holdings, star: Star) -> Base | None:
    """A base fitted on a planning lattice; None if the answering lattice lacks a part of it."""
    # A block that is not raised may have no place among the new levels; the base leaves it out.
    raised = view.raises(star.alphas) if view is not holdings else star.alphas
    places = places_of(holdings, view, list(raised))
    if places is None:
        return None
    alphas = {places.by_block[b]: star.alphas[b] for b in raised}
    return Base(places.holdings, alphas)


def view_of(
    holdings: Holdings, questions: Sequence[Question], rule: RentOrBuy | None, effort: Effort
) -> Holdings:
    """Holdings on the lattice with the cheapest rough base.

    Fitting a base on every lattice was tried: the batches of `apex` cost the same to 8 digits.

    Args:
        rule: its learner offers lattices; None for the present lattice only.
    """
    if rule is None or rule.learner is None:
        return holdings
    asked = [paid_question(q, kind="blocks", price_nano=0) for q in questions]
    found = rule.views(holdings, asked, effort)
    if len(found) == 1:
        return found[0]
    some = asked[:: -(-len(asked) // PLANNER.sample)]
    left = list[float]()
    for view in found:
        effort.add(PLANNER.evaluation_work * len(some))
        left.append(left_on(view, some, effort))
    return found[left.index(min(left))]


def wants_of(holdings: Holdings, questions: Sequence[Question], effort: Effort) -> list[Want]:
    """The questions as requirements of a base; empty if no base can be fitted to all."""
    wants = list[Want]()
    for q in questions:
        effort.add(PLANNER.evaluation_work)
        half_width = q.roomy_half_width
        want = want_of(holdings, q.row, half_width=half_width, confidence=q.confidence)
        if want is None:
            return []
        wants.append(want)
    return wants if len(fitting(holdings, wants)) == len(wants) else []


def fitted(
    holdings: Holdings, wants: Sequence[Want], effort: Effort, old: Star | None = None
) -> Star:
    """The best base found for these requirements, within half of the remaining work."""
    wanted = Wants()
    for want in wants:
        wanted.add(want)
    return fit_star(holdings, wanted.wants, old=old, effort=effort.part(PLANNER.work_part))


def best_on(
    holdings: Holdings,
    view: Holdings,
    questions: Sequence[Question],
    effort: Effort,
    *,
    most_nano: int,
) -> Priced | None:
    """The best base found on one lattice, scaled until it meets every question; or None.

    Args:
        most_nano: price limit; the search for the scale ends once it is passed.
    """
    wants = wants_of(view, questions, effort)
    if not wants:
        return None
    star = fitted(view, wants, effort)
    base = answered_base(holdings, view, star)
    if base is None:
        return None
    ordered = [questions[i] for i in np.argsort(-uses(view, star, wants), kind="stable")]

    def is_dear(part: float) -> bool:
        return base.priced(part).price_nano > most_nano

    part = Scaling(base.holdings, base.raises, effort, is_dear).least_part(ordered)
    return None if part is None else base.priced(part)


def are_about_all(holdings: Holdings, questions: Sequence[Question]) -> bool:
    """Whether every cell that a table weighs on is in a question's row.

    A table adds its alpha to every cell of the domain, a row to its own cells alone. At an equal
    price the row leaves room elsewhere. So a table is taken only if the questions cover all its
    cells: then it costs later questions nothing, and serves more of them.

    Of data that arrive over time, tables weigh on the periods that they have cells for. Rows other
    than indicators of a box do not count. The answer is no if the questions need more cells than a
    table may have.
    """
    rows = [as_box(q.row.row) for q in questions]
    try:
        grid = class_grid(*rows)
    except CapacityError:
        return False
    if grid.n_cells > MAX_TABLE_CELLS:
        return False
    inside = np.zeros(grid.shape, dtype=bool)
    for row in rows:
        if row.n_terms == 1:
            inside[np.ix_(*_sides(grid, row))] = True
    return bool(inside[np.ix_(*_weighed(holdings, grid))].all())


def _sides(grid: ClassGrid, row: LinearQuery) -> list[np.ndarray]:
    """Weighed classes of a row of one term, per attribute of the grid."""
    (term,) = row.terms
    found = []
    for classes in grid.axes:
        weights = term.by_axis.get(classes.axis)
        every = np.ones(classes.n, dtype=bool)
        found.append(every if weights is None else classes.on_classes(weights) != 0)
    return found


def _weighed(holdings: Holdings, grid: ClassGrid) -> list[np.ndarray]:
    """Weighed classes of a table, per attribute of the grid."""
    found = []
    for classes in grid.axes:
        weighed = np.ones(classes.n, dtype=bool)
        if classes.axis == holdings.period_axis and holdings.table_periods is not None:
            weighed[:] = False
            weighed[classes.dense[sorted(holdings.table_periods)]] = True
        found.append(weighed)
    return found

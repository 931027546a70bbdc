"""The lattice to plan on: regular levels, or levels learnt from the questions asked.

Three lattices are compared by the price of raising the holdings to a base for the latest questions:
the lattice used for answering; one with learnt levels between the measured ones; and one with
learnt levels only, on which other measured levels are of no use. So levels that were bought before
the questions were known do not bind for ever. They are given up only if that is cheaper.

The choice is a function of the paid questions in their order and of the measured tables. Levels
are learnt anew when the number of paid questions has no more than three binary digits before its
zeros (1 to 8, 10, 12, 14, 16, 20, ...), and compared anew when a table is measured or raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from qserver.inference.tables.blocks.chain import Chain
from qserver.inference.tables.blocks.nested_chains import Labels, OverlaidChains, partitions_of
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.planning.blocks.demand import want_of
from qserver.planning.blocks.levels.learned_levels import Sightings, learnt_chain, sightings
from qserver.planning.blocks.levels.uneven_parts import uneven_chain
from qserver.planning.blocks.star import price_left
from qserver.planning.blocks.wants import Wants
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.records.paid_question import PaidQuestion

Chains = Mapping[int, Chain]


@dataclass(frozen=True, eq=False)
class _State:
    """What a choice depends on: it holds until one of these changes."""

    n_read: int
    lattice: Lattice
    alphas: Mapping[BlockKey, int]

    def is_like(self, other: _State) -> bool:
        """Whether the choice would be the same."""
        same = self.n_read == other.n_read and self.lattice is other.lattice
        return same and self.alphas == other.alphas


@dataclass
class Learner:
    """Levels learnt from the questions seen; it has no state except caches."""

    _state: _State | None = None
    _lattice: Lattice | None = None
    _lattices: list[tuple[Lattice, Chains, Lattice]] = field(default_factory=list)

    def view(self, holdings: Holdings, paid: Sequence[PaidQuestion]) -> Holdings:
        """The holdings on the lattice to plan on; `holdings` itself if that is its lattice."""
        return seen_on(holdings, self.lattice(holdings, paid))

    def lattice(self, holdings: Holdings, paid: Sequence[PaidQuestion]) -> Lattice:
        """The lattice to plan on, the same object until it changes."""
        tables = holdings.engine.tables
        state = _State(n_learnt_from(len(paid)), tables.lattice, dict(tables.alpha_nano))
        if self._lattice is None or self._state is None or not state.is_like(self._state):
            self._lattice = self._chosen(holdings, paid[: state.n_read])
            self._state = state
        return self._lattice

    def _chosen(self, holdings: Holdings, read: Sequence[PaidQuestion]) -> Lattice:
        """The present lattice, or the cheapest for the latest questions if it is far cheaper."""
        found = self._found(holdings, sightings(read))
        if len(found) == 1:
            return found[0]
        asked = read[-PLANNER.compared_questions :]
        left = [left_on(seen_on(holdings, lattice), asked, Effort()) for lattice in found]
        best = min(range(1, len(found)), key=left.__getitem__)
        return found[best] if left[best] < PLANNER.learnt_worth * left[0] else found[0]

    def views(
        self,
        holdings: Holdings,
        paid: Sequence[PaidQuestion],
        asked: Sequence[PaidQuestion],
        effort: Effort,
    ) -> list[Holdings]:
        """The holdings on every lattice that questions asked at once may be planned on.

        The present lattice comes first. Then come the one learnt from the paid questions, those
        whose levels end where these questions do, and one with a level of unequal parts that is
        fitted to them.

        Args:
            effort: counts the work of that search.
        """
        known = {a: replace(s, is_all=True) for a, s in sightings(asked).items()}
        found = self._found(holdings, known)
        lattices = {id(x): x for x in (found[0], self.lattice(holdings, paid), *found[1:])}
        uneven = self._uneven(holdings, asked, effort)
        if uneven is not None:
            lattices[id(uneven)] = uneven
        return [seen_on(holdings, lattice) for lattice in lattices.values()]

    def _uneven(
        self, holdings: Holdings, asked: Sequence[PaidQuestion], effort: Effort
    ) -> Lattice | None:
        """The lattice with a level of unequal parts for these questions, if there is one."""
        tables = holdings.engine.tables
        chain = uneven_chain(asked, lambda a: list(partitions_of(a, tables.partitions)), effort)
        if chain is None or chain.axis == tables.lattice.apart:
            return None
        return self._of(tables.lattice, {chain.axis: chain})

    def _found(self, holdings: Holdings, every: Mapping[int, Sightings]) -> list[Lattice]:
        """The present lattice, and those with levels learnt from these sightings."""
        tables = holdings.engine.tables
        most, apart = PLANNER.most_learnt_values, tables.lattice.apart
        seen = {a: s for a, s in every.items() if s.size <= most and a != apart}
        beside = _chains(seen, {a: list(partitions_of(a, tables.partitions)) for a in seen})
        alone = _chains({a: s for a, s in seen.items() if s.is_repeated}, {})
        found = [tables.lattice]
        for above in (beside, {**beside, **alone}):
            lattice = self._of(tables.lattice, above)
            if all(lattice is not other for other in found):
                found.append(lattice)
        return found

    def _of(self, regular: Lattice, above: Chains) -> Lattice:
        """The lattice with these chains in place of some; the same object for the same chains."""
        above = {a: c for a, c in above.items() if c != regular.chains[a]}
        if not above:
            return regular
        for below, known, lattice in self._lattices:
            if below is regular and known == above:
                return lattice
        found = Lattice(OverlaidChains(regular.chains, above), regular.apart)
        self._lattices = [*self._lattices[1 - PLANNER.kept_lattices :], (regular, above, found)]
        return found


def n_learnt_from(n_paid: int) -> int:
    """The number of paid questions, the first ones, that levels are learnt from."""
    n = min(n_paid, PLANNER.most_read)
    shift = max(0, n.bit_length() - PLANNER.digits)
    return n >> shift << shift


def _chains(
    seen: Mapping[int, Sightings], measured: Mapping[int, Sequence[Labels]]
) -> dict[int, Chain]:
    """Chains with all levels that are measured, and learnt ones between them."""
    found = {a: learnt_chain(a, s, measured.get(a, ())) for a, s in seen.items()}
    return {a: chain for a, chain in found.items() if chain is not None}


def seen_on(holdings: Holdings, lattice: Lattice) -> Holdings:
    """The holdings with their tables as blocks of another lattice; valid until history grows."""
    if lattice is holdings.lattice:
        return holdings
    engine = copy(holdings.engine)
    engine.tables = holdings.engine.tables.seen_on(lattice)
    return replace(holdings, engine=engine)


def left_on(
    holdings: Holdings,
    asked: Sequence[PaidQuestion],
    effort: Effort,
) -> float:
    """About the price, in epsilon, of raising the holdings to a base for these questions.

    Args:
        effort: counts the work.
    """
    wanted = Wants()
    for paid in asked:
        want = want_of(holdings, paid.form, half_width=paid.half_width, confidence=paid.confidence)
        if want is not None:
            wanted.add(want)
    return price_left(holdings, wanted.wants, effort=effort)

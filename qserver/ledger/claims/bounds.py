"""The bound of each claim after the charges so far, and after those of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qserver.ledger.claims.cells import ToldApart
from qserver.ledger.claims.charged import Charged
from qserver.ledger.claims.search import Direction, Search
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.records.charge import AnyCharge
from qserver.records.claims.claim import Claim
from qserver.records.claims.known import known_within
from qserver.records.state import State


@dataclass(frozen=True)
class ClaimedQuery:
    """A claim on a domain.

    Args:
        row: the claimed query.
        balanced: whether the number of records is known, so that only directions count that keep
            it: under replace-one where no record lies outside the domain.
        idle: attributes whose last value stands for missing values and those outside. How many
            records have it is taken as known to everybody: often nobody has it, and a bound that
            rests on its being unknown would be of little worth.
    """

    claim: Claim
    row: LinearQuery
    balanced: bool
    idle: frozenset[int] = frozenset()

    def known(self, charged: Charged, *, enough: float = 0.0) -> float:
        """Most probability of the query lying in any interval of the claim's width.

        Args:
            enough: a bound at which the search may end.

        Returns:
            A bound that holds, rounded up; 1 if there is no direction.
        """
        best = 1.0
        for direction in self._directions(charged):
            if best <= enough:
                break
            spacing = abs(direction.moves(self.row))
            if not spacing or (self.balanced and not direction.is_balanced):
                continue
            loss = charged.loss_nano(direction.cells, direction.weights)
            width = self.claim.exact_width
            best = min(best, known_within(loss, spacing=spacing, width=width))
        return best

    def _directions(self, charged: Charged) -> Iterator[Direction]:
        search = Search(ToldApart(charged, self.row, self.idle), self.row)
        if not self.balanced:
            yield from search.single_cells()
        yield from search.combined_cells(balanced=self.balanced)


def claimed_queries(
    claims: Sequence[Claim], domain: Domain, *, balanced: bool
) -> tuple[ClaimedQuery, ...]:
    """The claims on a domain.

    Raises:
        QueryError, CapacityError: one is no question on this domain.
    """
    found = []
    for claim in claims:
        row = claim.row(domain)
        found.append(ClaimedQuery(claim, row, balanced, _idle(row, domain)))
    return tuple(found)


def _idle(row: LinearQuery, domain: Domain) -> frozenset[int]:
    """Attributes with a value for the missing that the query does not ask for by itself."""
    asked = {f.axis for t in row.terms for f in t.factors if f.weights.values[-1]}
    others = {axis for axis, one in enumerate(domain.attributes) if one.has_other}
    return frozenset(others - asked)


@dataclass(frozen=True)
class Lifted:
    """A claim that a plan would let be known better than allowed: its bounds before and after."""

    claim: Claim
    before: float
    after: float


class ClaimBounds:
    """The bounds of a dataset's claims; it follows the charges of its snapshot.

    Everything here is a function of charges, which are made before anything is drawn.

    Args:
        claims: the claims on the dataset's domain.
        charged: the charges so far.
    """

    def __init__(self, claims: Sequence[ClaimedQuery], charged: Charged | None = None) -> None:
        self._claims = tuple(claims)
        self._charged = charged or Charged()
        self._known: dict[tuple[str, int], float] = {}

    def append(self, charge: AnyCharge) -> None:
        """Append a charge of the snapshot."""
        if self._claims:
            self._known.clear()
            self._charged.add(charge)

    def known(self, *, every_nano: int) -> list[tuple[Claim, float]]:
        """Per claim the most probability of its query lying in any interval of its width.

        Args:
            every_nano: what a record may have lost in other snapshots, in 1e-9 epsilon.
        """
        return [(one.claim, self._known_now(one, every_nano)) for one in self._claims]

    def lifted(self, charges: Sequence[AnyCharge], *, every_nano: int) -> Lifted | None:
        """The first claim that these charges would carry past its cap; None if there is none.

        A bound that is past the cap already may stay where it is, but not rise.

        Args:
            every_nano: what a record may have lost in other snapshots, in 1e-9 epsilon.
        """
        if not self._claims:
            return None
        charged = self._charged.with_more(charges, every_nano=every_nano)
        for one in self._claims:
            after = one.known(charged, enough=one.claim.p)
            if after > one.claim.p and after > self._known_now(one, every_nano):
                return Lifted(one.claim, self._known_now(one, every_nano), after)
        return None

    def _known_now(self, one: ClaimedQuery, every_nano: int) -> float:
        key = one.claim.name, every_nano
        if key not in self._known:
            self._known[key] = one.known(self._charged.with_more((), every_nano=every_nano))
        return self._known[key]

    def state(self) -> State:
        """What `from_state` needs; public, as charges are."""
        return self._charged.state()

    @classmethod
    def from_state(
        cls, state: State, claims: Sequence[ClaimedQuery], *, sizes: Sequence[int]
    ) -> ClaimBounds:
        """The bounds as they were."""
        return cls(claims, Charged.from_state(state, sizes))

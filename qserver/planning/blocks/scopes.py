"""The demand within a scope: of the questions about some attributes alone, and fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from qserver.inference.tables.blocks.pattern import Lattice
from qserver.planning.blocks.demand import Demand
from qserver.planning.blocks.rent import Course
from qserver.planning.blocks.settled import At, Bases
from qserver.planning.blocks.star import Star
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.records.paid_question import PaidQuestion


@dataclass
class _Within:
    """What was paid for within one scope.

    Its bases are not written down, so none has a price from when own rows cost less.
    """

    n_known: int = 0
    paid: list[PaidQuestion] = field(default_factory=list)
    demand: Demand = field(default_factory=Demand)
    course: Course = field(default_factory=Course)
    fits: dict[At, Star] = field(default_factory=dict)
    state: object = None

    def follow(self, paid: Sequence[PaidQuestion], scope: frozenset[int], at: Holdings) -> None:
        """Take in what is new."""
        for question in paid[self.n_known :]:
            if scope.issuperset(question.row.scope):
                alone = replace(question, bases=())
                self.paid.append(alone)
                self.demand.take_in(alone, at)
        self.n_known = len(paid)
        self.course.follow(self.paid, at)
        state = len(self.paid), dict(at.alphas)
        if state != self.state:
            self.state, self.fits = state, {}


@dataclass
class Scopes:
    """The demand within each scope that was asked for lately, on one lattice."""

    _within: dict[frozenset[int], _Within] = field(default_factory=dict)
    _lattice: Lattice | None = None

    def bases(
        self, scope: frozenset[int], paid: Sequence[PaidQuestion], holdings: Holdings
    ) -> Bases:
        """The best bases for what was paid for within a scope."""
        if holdings.lattice is not self._lattice:
            self._lattice, self._within = holdings.lattice, {}
        within = self._within.pop(scope, None) or _Within()
        within.follow(paid, scope, holdings)
        self._within[scope] = within
        if len(self._within) > PLANNER.kept_scopes:
            del self._within[next(iter(self._within))]
        return Bases(holdings, within.demand, within.course, within.fits, is_part=True)

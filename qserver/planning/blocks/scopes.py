"""What was paid for, in all and within scopes: the rent, the demand, and the best bases.

The scope of a question is the attributes that it is about. Within a scope count the questions about
its attributes alone, or fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.demand import Demand
from qserver.planning.blocks.rent import Course
from qserver.planning.blocks.saved_demand import demand_of_state, state_of_demand
from qserver.planning.blocks.settled import At, Bases
from qserver.planning.blocks.star import Star
from qserver.planning.constants import PLANNER
from qserver.planning.holdings import Holdings
from qserver.records.paid_question import PaidQuestion
from qserver.records.state import State


@dataclass
class Scope:
    """The paid questions within some attributes, followed as more are paid for.

    The course is followed always, the demand when the bases are asked for. Bases within some
    attributes are not written down, so none has a price from when own rows cost less.

    Args:
        axes: the attributes; None for all questions.
    """

    axes: frozenset[int] | None = None
    course: Course = field(default_factory=Course)
    demand: Demand = field(default_factory=Demand)
    n_read: int = 0
    n_wanted: int = 0
    lattice: Lattice | None = None
    _fits: dict[At, Star] = field(default_factory=dict)
    _state: tuple[int, dict[BlockKey, float]] | None = None

    @property
    def is_part(self) -> bool:
        """Whether there are other questions."""
        return self.axes is not None

    def follow(self, paid: Sequence[PaidQuestion], holdings: Holdings) -> None:
        """Take in the questions that are new, of all that were paid for."""
        for question in paid[self.n_read :]:
            if self.axes is None or self.axes.issuperset(question.row.scope):
                self.course.take_in(question, holdings, has_bases=self.axes is None)
        self.n_read = len(paid)

    def bases(self, holdings: Holdings) -> Bases:
        """The best bases for these questions; what is fitted serves until the state changes."""
        if holdings.lattice is not self.lattice:
            self.lattice, self.n_wanted, self.demand = holdings.lattice, 0, Demand()
            self._state = None
        for question in self.course.paid[self.n_wanted :]:
            self.demand.take_in(question, holdings, has_bases=self.axes is None)
        self.n_wanted = len(self.course.paid)
        state = self.n_wanted, dict(holdings.alphas)
        if state != self._state:
            self._state, self._fits = state, {}
        return Bases(holdings, self.demand, self.course, self._fits, self.is_part)


@dataclass
class Scopes:
    """All paid questions, and those within each scope that was asked for lately."""

    paid: list[PaidQuestion] = field(default_factory=list)
    _asked: set[int] = field(default_factory=set)
    _all: Scope = field(default_factory=Scope)
    _parts: dict[frozenset[int], Scope] = field(default_factory=dict)
    _saved: State | None = None

    def take_in(self, paid: PaidQuestion) -> None:
        """Add a question that was paid for."""
        self.paid.append(paid)
        self._asked |= set(paid.row.scope)

    def all(self, holdings: Holdings) -> Scope:
        """All questions."""
        if self._saved is not None:
            self._resume(self._saved, holdings)
        self._all.follow(self.paid, holdings)
        return self._all

    def within(self, axes: Iterable[int], holdings: Holdings) -> Scope:
        """The questions about these attributes alone, or fewer of them."""
        key = frozenset(axes)
        if self._asked <= key:
            return self.all(holdings)
        part = self._parts.pop(key, None) or Scope(key)
        part.follow(self.paid, holdings)
        self._parts[key] = part
        if len(self._parts) > PLANNER.kept_scopes:
            del self._parts[next(iter(self._parts))]
        return part

    def state(self) -> State:
        """What `restore` needs: public, as paid questions are."""
        known = self._all
        parts, head = {"course": known.course.state()}, {"n_known": known.n_wanted}
        if known.lattice is not None:
            parts["demand"] = state_of_demand(known.demand, known.lattice)
        return State.of_parts(parts, head)

    def restore(self, state: State, ledger: CellLedger) -> None:
        """Take over what was known of the questions taken in so far, in place of a replay."""
        course = Course.from_state(state.part("course"), self.paid, ledger)
        self._all = Scope(course=course, n_read=len(course.paid))
        self._saved = state if "demand" in state.head else None

    def _resume(self, saved: State, holdings: Holdings) -> None:
        """Begin with the demand that was saved, if it was made on this lattice."""
        self._saved, lattice, known = None, holdings.lattice, self._all
        demand = demand_of_state(saved.part("demand"), lattice, sizes=holdings.ledger.sizes)
        if demand is not None:
            known.lattice, known.n_wanted, known.demand = lattice, saved.head["n_known"], demand

"""The cap of differential privacy on any test of membership, and its minimum with the bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from qserver.errors import InputError
from qserver.models.tracing.bound import Rates, TracingBound, area_under, checked_rates

Relation = Literal["add-remove", "replace-one"]
Game = Literal["replaced", "added"]
RELATIONS: tuple[Relation, ...] = ("add-remove", "replace-one")
GAMES: tuple[Game, ...] = ("replaced", "added")


def relation_of(name: str) -> Relation:
    """The relation of this name; InputError if the name is unknown."""
    for relation in RELATIONS:
        if relation == name:
            return relation
    raise InputError("relation", "be `add-remove` or `replace-one`", name)


@dataclass(frozen=True)
class PrivacyCap:
    """The cap of an epsilon: power <= e^x error, and 1 - error <= e^x (1 - power).

    x depends on the game of the attacker. In the game `replaced` n is public, as in the structural
    bound: the training set has n records in both cases, with the target's record or another record
    of the population in its place. Adding and removing a record connects the two cases in two
    steps, so x = 2 epsilon. In the game `added` the training set has the target's record or one
    record fewer, and x = epsilon. A guarantee for replacing a record does not cover this game, as
    n may be revealed.

    Args:
        epsilon: epsilon of everything released about the training set, >= 0.
        relation: the neighbours of the guarantee.
        game: the two cases that the attacker must tell apart.

    Raises:
        InputError: a value is out of range, or the guarantee does not cover the game.

    References:
        Wasserman and Zhou (2010), theorem 2.4; Kairouz, Oh and Viswanath (2015).
    """

    epsilon: float
    relation: Relation = "add-remove"
    game: Game = "replaced"

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < inf:
            raise InputError("epsilon", "be a finite number >= 0", self.epsilon)
        relation_of(self.relation)
        if self.game not in GAMES:
            raise InputError("game", "be `replaced` or `added`", self.game)
        if self.relation == "replace-one" and self.game == "added":
            raise InputError("game", "be `replaced` under `replace-one`", self.game)

    @property
    def exponent(self) -> float:
        """x: the most by which a log-probability may differ between the two cases."""
        crossed = self.relation == "add-remove" and self.game == "replaced"
        return 2 * self.epsilon if crossed else self.epsilon

    def power(self, fpr: ArrayLike) -> Rates:
        """min(e^x fpr, 1 - e^-x (1 - fpr))."""
        rates = checked_rates(fpr)
        # e^x overflows beyond 700; the other side of the minimum is smaller long before.
        steep = np.minimum(1.0, rates * exp(min(self.exponent, 700.0)))
        found: Rates = np.minimum(steep, 1 - exp(-self.exponent) * (1 - rates))
        return found

    @property
    def auc(self) -> float:
        """1 / (1 + e^-x): the two straight lines meet at error 1 / (1 + e^x)."""
        return 1 / (1 + exp(-self.exponent))


@dataclass(frozen=True)
class TracingLimit:
    """The lesser of the structural bound and the cap, at every error.

    Args:
        bound: the structural bound of everything released.
        cap: the cap by the epsilon of everything released; None without differential privacy.
    """

    bound: TracingBound
    cap: PrivacyCap | None = None

    def power(self, fpr: ArrayLike) -> Rates:
        """The lesser power at these errors."""
        power = self.bound.power(fpr)
        return power if self.cap is None else np.minimum(power, self.cap.power(fpr))

    @property
    def auc(self) -> float:
        """The area under `power`, to about 1e-6."""
        return area_under(self)

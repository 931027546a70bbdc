"""What differential privacy allows any test of membership, and the lesser of it and the bound."""

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
    """The neighbours that `name` names; InputError where there are none of this name."""
    for relation in RELATIONS:
        if relation == name:
            return relation
    raise InputError("relation", "be `add-remove` or `replace-one`", name)


@dataclass(frozen=True)
class PrivacyCap:
    """The cap of an epsilon: power <= e^x error, and 1 - error <= e^x (1 - power).

    What x is depends on what the attacker does not know. In the game `replaced` the training set
    has n records either way, and another record of the population stands where the target's might
    be: the game of the structural bound, where n is public. A guarantee for adding and removing a
    record passes such a pair in two steps, so x = 2 epsilon. In the game `added` the training set
    has the target's record or one record fewer, and x = epsilon. A guarantee for replacing says
    nothing of that game, as it may tell n.

    Args:
        epsilon: of all that is released of the training set, >= 0.
        relation: the neighbours that it is for.
        game: what the attacker is to tell.

    Raises:
        InputError: a value is out of range, or the guarantee says nothing of the game.

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
        """x: the most by which a log-probability may differ between the two worlds."""
        crossed = self.relation == "add-remove" and self.game == "replaced"
        return 2 * self.epsilon if crossed else self.epsilon

    def power(self, fpr: ArrayLike) -> Rates:
        """min(e^x fpr, 1 - e^-x (1 - fpr))."""
        rates = checked_rates(fpr)
        # Beyond e^700 a float overflows; the other side holds long before.
        steep = np.minimum(1.0, rates * exp(min(self.exponent, 700.0)))
        found: Rates = np.minimum(steep, 1 - exp(-self.exponent) * (1 - rates))
        return found

    @property
    def auc(self) -> float:
        """1 / (1 + e^-x): the two straight sides meet at error 1 / (1 + e^x)."""
        return 1 / (1 + exp(-self.exponent))


@dataclass(frozen=True)
class TracingLimit:
    """At every error the lesser of the structural bound and the cap.

    Args:
        bound: of all that is released.
        cap: of the epsilon that all of it costs; None without differential privacy.
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

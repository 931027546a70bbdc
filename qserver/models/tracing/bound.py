"""The power of tests of membership, before a model is released: bound, cap and gate.

*The structural bound* is on the power of tracing attacks, from a model's structure alone.
Murakonda, Shokri and Theodorakopoulos bound the likelihood-ratio tracing attack on a model learnt
without noise. The bound uses only public facts: the model's complexity C and the size n of its
training set. It is asymptotic: the log-likelihood ratio is taken to be normal with means +-C/2n and
variance C/n, which holds if every parameter is learnt from many records. It is not a guarantee; the
cap by differential privacy is one (`cap`).

*The cap* is that of differential privacy on any test of membership; the lesser of the two counts.

*The gate* says whether a model may be released, from its structure and epsilon alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from qserver.errors import InputError

Rates = NDArray[np.float64]


class TradeOff(Protocol):
    """A bound on the power of every test of membership, by its error."""

    def power(self, fpr: ArrayLike) -> Rates:
        """The largest possible share of true positives at these shares of false positives."""
        ...


def checked_rates(fpr: ArrayLike) -> Rates:
    """`fpr` as floats; InputError unless all lie in [0, 1]."""
    rates = np.asarray(fpr, dtype=np.float64)
    if not np.all((rates >= 0) & (rates <= 1)):
        raise InputError("fpr", "lie in [0, 1]")
    return rates


@dataclass(frozen=True)
class TracingBound:
    """The structural bound: z_alpha + z_(1-beta) = sqrt(C/n), less with a finite reference set.

    Args:
        complexity: C, the number of independent learnt numbers, > 0.
        n: number of records in the training set, > 0.
        n_reference: number of records of the population that the attacker has, > 0; infinite for
            one who knows the population.

    Raises:
        InputError: a value is out of range.

    References:
        Murakonda et al., theorem 1. With a finite reference set the compared estimates differ by
        the errors of both, variances C/n + C/n_reference, while the means stay C/n apart.
    """

    complexity: float
    n: float
    n_reference: float = inf

    def __post_init__(self) -> None:
        for name, value in (("complexity", self.complexity), ("records", self.n)):
            if not 0 < value < inf:
                raise InputError(name, "be a finite number > 0", value)
        if not self.n_reference > 0:
            raise InputError("reference_records", "be a number > 0", self.n_reference)

    @property
    def separation(self) -> float:
        """Distance of the two means of the log-likelihood ratio, in standard deviations."""
        return sqrt(self.complexity / self.n) / sqrt(1 + self.n / self.n_reference)

    def power(self, fpr: ArrayLike) -> Rates:
        """beta = Phi(separation - z_alpha)."""
        rates: Rates = ndtr(self.separation + ndtri(checked_rates(fpr)))
        return rates

    @property
    def auc(self) -> float:
        """Phi(separation / sqrt 2)."""
        return float(ndtr(self.separation / sqrt(2)))


def area_under(trade_off: TradeOff, *, steps: int = 4001) -> float:
    """The area under a bound's curve, to about 1e-6.

    Uses the trapezoid rule in z = Phi^-1(fpr), in which the curves are smooth except for kinks.
    """
    z = np.linspace(-9.0, 9.0, steps)
    density = np.exp(-z * z / 2) / sqrt(2 * np.pi)
    return float(np.trapezoid(trade_off.power(ndtr(z)) * density, z))


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


Basis = Literal["least", "cap"]
BASES: tuple[Basis, ...] = ("least", "cap")


@dataclass(frozen=True)
class ReleaseGate:
    """A rule: no test of membership with false positives `fpr` may have more than `max_power`.

    The gate never sees data or the outcome of an attack, so its decision is public.

    Args:
        fpr: share of false positives, in (0, 1).
        max_power: share of members found, in [fpr, 1]; guessing alone reaches `fpr`.
        basis: `least` uses the lesser of bound and cap. `cap` uses the cap alone, which holds for
            any data and any model; the bound is only asymptotic.

    Raises:
        InputError: a value is out of range.
    """

    fpr: float
    max_power: float
    basis: Basis = "least"

    def __post_init__(self) -> None:
        if not 0 < self.fpr < 1:
            raise InputError("fpr", "be in (0, 1)", self.fpr)
        if not self.fpr <= self.max_power <= 1:
            raise InputError("max_power", "be from `fpr`, which guessing reaches, to 1")
        if self.basis not in BASES:
            raise InputError("basis", "be `least` or `cap`", self.basis)


@dataclass(frozen=True)
class GateDecision:
    """The decision of a gate, with its reason.

    Args:
        passes: whether the release is within the rule.
        power: the power that counted, at the gate's error; 1 if nothing bounds it.
        decided_by: the source of that power.
        reason: the decision in a sentence.
    """

    passes: bool
    power: float
    decided_by: Literal["bound", "cap", "nothing"]
    reason: str


def max_power_at_fpr(limit: TracingLimit, gate: ReleaseGate) -> GateDecision:
    """Whether a release that `limit` bounds is within `gate`."""
    cap = None if limit.cap is None else float(limit.cap.power(gate.fpr))
    bound = None if gate.basis == "cap" else float(limit.bound.power(gate.fpr))
    if bound is not None and (cap is None or bound <= cap):
        return _decision(gate, bound, "bound")
    if cap is not None:
        return _decision(gate, cap, "cap")
    return GateDecision(
        passes=gate.max_power >= 1,
        power=1.0,
        decided_by="nothing",
        reason="Only a cap counts here, and without an epsilon there is none.",
    )


def _decision(gate: ReleaseGate, power: float, by: Literal["bound", "cap"]) -> GateDecision:
    passes = power <= gate.max_power
    source = {"bound": "structure and number of records allow", "cap": "epsilon allows"}[by]
    verb = "is within" if passes else "exceeds"
    reason = (
        f"At {gate.fpr:g} false positives the {source} a power of {power:.4g}, "
        f"which {verb} the {gate.max_power:g} that is permitted."
    )
    return GateDecision(passes=passes, power=power, decided_by=by, reason=reason)

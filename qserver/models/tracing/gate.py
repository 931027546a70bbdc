"""The release gate: whether a model may be released, from its structure and epsilon alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qserver.errors import InputError
from qserver.models.tracing.cap import TracingLimit

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

"""The report of a tracing audit, as frozen data and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isinf
from typing import Any, Literal

from qserver.errors import InputError
from qserver.models.network.learning.learn import (
    MAX_CHOICE_SIZE,
    choice_size,
    choose_tables,
    maximal_families,
    most_numbers_chosen,
)
from qserver.models.network.structure import (
    IndependentNumbers,
    Structure,
    complexity,
    table_complexity,
)
from qserver.models.tracing.attack import Roc, SampleEstimate
from qserver.models.tracing.bound import (
    GateDecision,
    PrivacyCap,
    ReleaseGate,
    TracingBound,
    TracingLimit,
    max_power_at_fpr,
)
from qserver.models.tracing.effects import (
    MeasuredEffect,
    StructuralEffect,
    StructurePart,
    structural_effects,
)

FORMAT = "qserver-tracing-report-1"
Release = Literal["model", "tables"]
RELEASES: tuple[Release, ...] = ("model", "tables")
# Dense near 0, for attacks with few errors, then evenly to 1.
CURVE_FPR = (*(1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3), *(i / 100 for i in range(1, 101)))


@dataclass(frozen=True)
class AuditRequest:
    """The subject of an audit; none of it is computed from private data.

    Args:
        structure: structure of the model.
        n: number of records in the training set, as stated by the owner.
        release: `model` if only conditional probabilities are released; `tables` if tables are
            released, as by this server's learning: the tables bought for the cap's epsilon, or
            those of the families if there is no cap.
        cap: the cap by the release's epsilon; None without one.
        n_reference: number of records of the population that the attacker knows; infinite for all.
        gate: the rule for the decision, or None.

    Raises:
        InputError: a value is out of range, or the structure has no parameter.
    """

    structure: Structure
    n: float
    release: Release = "tables"
    cap: PrivacyCap | None = None
    n_reference: float = float("inf")
    gate: ReleaseGate | None = None

    def __post_init__(self) -> None:
        if self.release not in RELEASES:
            raise InputError("release", "be `model` or `tables`", self.release)
        if not complexity(self.structure):
            raise InputError("network", "have a variable of two values or more")
        self.finite_bound  # noqa: B018  (checks n and n_reference)

    @property
    def model_complexity(self) -> int:
        """Number of independent parameters of the model."""
        return complexity(self.structure)

    @cached_property
    def complexity(self) -> int:
        """Number of independent released numbers; a bound if tables are too many to count."""
        return self.in_tables.count if self.release == "tables" else complexity(self.structure)

    @cached_property
    def in_tables(self) -> IndependentNumbers:
        """Number of independent numbers in the tables that learning would release.

        It is a bound if the structure is too large to choose tables here, or if the tables have
        too many interactions to list.
        """
        structure, cap = self.structure, self.cap
        scopes = maximal_families(structure)
        if cap is not None and cap.epsilon > 0:
            if choice_size(structure) > MAX_CHOICE_SIZE:
                return IndependentNumbers(most_numbers_chosen(structure), is_exact=False)
            # Without earlier tables the choice is the same for every epsilon.
            scopes = tuple(t.scope for t in choose_tables(structure, epsilon=1.0))
        return table_complexity(structure.sizes, scopes)

    @property
    def bound(self) -> TracingBound:
        """The structural bound against an attacker who knows the population."""
        return TracingBound(self.complexity, self.n)

    @property
    def finite_bound(self) -> TracingBound:
        """The structural bound against an attacker with `n_reference` records of it."""
        return TracingBound(self.complexity, self.n, self.n_reference)

    @property
    def limit(self) -> TracingLimit:
        """The lesser of the bound and the cap."""
        return TracingLimit(self.bound, self.cap)


@dataclass(frozen=True)
class Curves:
    """Power at each error; a curve that does not apply is None."""

    fpr: tuple[float, ...]
    bound: tuple[float, ...]
    limit: tuple[float, ...]
    cap: tuple[float, ...] | None = None
    finite_bound: tuple[float, ...] | None = None
    attack: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Areas:
    """Areas under the curves; guessing has 1/2."""

    model_bound: float
    bound: float
    limit: float
    cap: float | None = None
    finite_bound: float | None = None
    attack: SampleEstimate | None = None


@dataclass(frozen=True)
class TracingReport:
    """How well anybody could trace members from a release.

    Args:
        request: the subject of the audit.
        curves, areas: for the bound, the cap, the lesser of both, and an attack if there was one.
        effects: effect of each attribute and each edge on the structural bound of the model.
        decision: decision of the gate, if there is one.
        measured: effects on the attack, if there was one.
        private: whether it depends on private records; such a report is for the owner alone.
    """

    request: AuditRequest
    curves: Curves
    areas: Areas
    effects: tuple[StructuralEffect, ...]
    decision: GateDecision | None = None
    measured: tuple[MeasuredEffect, ...] = ()
    private: bool = False

    def with_attack(
        self, roc: Roc, measured: tuple[MeasuredEffect, ...], *, private: bool
    ) -> TracingReport:
        """The report with the outcome of an attack added; the decision stays the same.

        Args:
            roc: scores of members and others.
            measured: effects of parts on the attack.
            private: whether the members are private records.
        """
        power = tuple(roc.power(self.curves.fpr).tolist())
        return replace(
            self,
            curves=replace(self.curves, attack=power),
            areas=replace(self.areas, attack=roc.auc),
            measured=measured,
            private=private,
        )

    def to_document(self) -> dict[str, Any]:
        """The report as JSON values."""
        request = self.request
        cap, gate = request.cap, request.gate
        return {
            "format": FORMAT,
            "private": self.private,
            "variables": len(request.structure.names),
            "edges": len(request.structure.edges),
            "complexity": complexity(request.structure),
            "table_complexity": request.in_tables.count,
            "table_complexity_is_exact": request.in_tables.is_exact,
            "release": request.release,
            "records": request.n,
            "reference_records": None if isinf(request.n_reference) else request.n_reference,
            "cap": None if cap is None else {**asdict(cap), "exponent": cap.exponent},
            "gate": None if gate is None else asdict(gate),
            "decision": None if self.decision is None else asdict(self.decision),
            "auc": asdict(self.areas),
            "curves": asdict(self.curves),
            "effects": [_effect(e.part, complexity=e.complexity, auc=e.auc) for e in self.effects],
            "measured_effects": [_effect(e.part, auc=asdict(e.auc)) for e in self.measured],
        }


def structural_report(request: AuditRequest) -> TracingReport:
    """The report before learning, from the structure, n and epsilon alone."""
    cap, bound, limit = request.cap, request.bound, request.limit
    finite = None if isinf(request.n_reference) else request.finite_bound
    curves = Curves(
        fpr=CURVE_FPR,
        bound=_curve(bound),
        limit=_curve(limit),
        cap=None if cap is None else _curve(cap),
        finite_bound=None if finite is None else _curve(finite),
    )
    areas = Areas(
        model_bound=TracingBound(complexity(request.structure), request.n).auc,
        bound=bound.auc,
        limit=limit.auc,
        cap=None if cap is None else cap.auc,
        finite_bound=None if finite is None else finite.auc,
    )
    effects = structural_effects(request.structure, n=request.n)
    decision = None if request.gate is None else max_power_at_fpr(limit, request.gate)
    return TracingReport(request, curves, areas, effects, decision)


def _curve(trade_off: TracingBound | PrivacyCap | TracingLimit) -> tuple[float, ...]:
    return tuple(trade_off.power(CURVE_FPR).tolist())


def _effect(part: StructurePart, **facts: Any) -> Mapping[str, Any]:
    return {"kind": part.kind, "name": part.name, "parent": part.parent, **facts}

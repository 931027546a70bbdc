"""The report of a tracing audit, as frozen data and as JSON.

The effect of one attribute or one edge on the power of tracing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isinf
from typing import Any, Literal

import numpy as np

from qserver.errors import InputError
from qserver.models.network.learning.allocations import (
    MAX_CHOICE_SIZE,
    choice_size,
    choose_tables,
    maximal_families,
    most_numbers_chosen,
)
from qserver.models.network.network import Table, normalised
from qserver.models.network.structure import (
    IndependentNumbers,
    Structure,
    complexity,
    complexity_of,
    table_complexity,
)
from qserver.models.tracing.attack import (
    Codes,
    Family,
    Roc,
    SampleEstimate,
    check_prior,
    check_records,
)
from qserver.models.tracing.bound import (
    GateDecision,
    PrivacyCap,
    ReleaseGate,
    TracingBound,
    TracingLimit,
    max_power_at_fpr,
)


@dataclass(frozen=True)
class StructurePart:
    """An attribute with its arrows (`parent` is None), or the arrow from `parent` to `name`."""

    name: str
    parent: str | None = None

    @property
    def kind(self) -> Literal["attribute", "edge"]:
        """Whether it is an attribute or an edge."""
        return "attribute" if self.parent is None else "edge"


@dataclass(frozen=True)
class StructuralEffect:
    """The effect of leaving out a part of the structure.

    Args:
        part: the part that is left out.
        complexity: number of independent parameters that are lost.
        auc: fall of the area under the structural bound.
    """

    part: StructurePart
    complexity: int
    auc: float


@dataclass(frozen=True)
class MeasuredEffect:
    """The fall of the attack's area if the model is learnt without a part, without noise."""

    part: StructurePart
    auc: SampleEstimate


@dataclass(frozen=True)
class _Smaller:
    """The changes of a structure without a part.

    Args:
        part: the part that is left out.
        changed: the remaining parents of each variable that loses one.
        gone: position of the variable that is left out, or None.
    """

    part: StructurePart
    changed: Mapping[int, tuple[int, ...]]
    gone: int | None = None

    def parents(self, structure: Structure) -> dict[int, tuple[int, ...]]:
        """The parents of each remaining variable."""
        left = {**dict(enumerate(structure.parents)), **self.changed}
        if self.gone is not None:
            del left[self.gone]
        return left

    def lost_complexity(self, structure: Structure) -> int:
        """Number of independent parameters lost with the part."""
        touched = [*self.changed, *(() if self.gone is None else (self.gone,))]
        before = {i: structure.parents[i] for i in touched}
        return complexity_of(before, structure.sizes) - complexity_of(self.changed, structure.sizes)


def structural_effects(structure: Structure, *, n: float) -> tuple[StructuralEffect, ...]:
    """The effect of each attribute, then of each edge, on C and on the bound; needs no data.

    Args:
        structure: structure of the model; its complexity is > 0.
        n: number of records in the training set.
    """
    whole = complexity(structure)
    auc = TracingBound(whole, n).auc
    found = []
    for smaller in _smaller(structure):
        gone = smaller.lost_complexity(structure)
        left = TracingBound(whole - gone, n).auc if gone < whole else 0.5
        found.append(StructuralEffect(smaller.part, gone, auc - left))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class AttackedRecords:
    """The records of an attack, value indexes of shape (records, attributes) each.

    Args:
        pool: the training set of the model; its records are the members.
        reference: records from which the attacker fits a model of the population.
        others: records in neither set.
    """

    pool: Codes
    reference: Codes
    others: Codes


def measured_effects(
    structure: Structure, records: AttackedRecords, *, prior: float = 1.0
) -> tuple[MeasuredEffect, ...]:
    """The effect of each attribute, then of each edge, on the attack's area under the curve.

    Each model is learnt again from the pool, without noise: the attack on a noisy model is weaker.

    Args:
        structure: structure of the whole model.
        records: pool, reference and others.
        prior: Dirichlet parameter of every fit, > 0.

    Raises:
        InputError: the records are not value indexes of the structure.
    """
    check_prior(prior)
    for part in (records.pool, records.reference, records.others):
        check_records(structure, part)
    columns = _FamilyScores(structure.sizes, records, prior)
    whole = columns.roc(dict(enumerate(structure.parents)))
    return tuple(
        MeasuredEffect(smaller.part, whole.auc_gain_over(columns.roc(smaller.parents(structure))))
        for smaller in _smaller(structure)
    )


def _smaller(structure: Structure) -> Iterator[_Smaller]:
    names, parents = structure.names, structure.parents
    for gone, name in enumerate(names):
        changed = {c: _without(parents[c], gone) for c in structure.children[gone]}
        yield _Smaller(StructurePart(name), changed, gone)
    for child, its in enumerate(parents):
        for parent in its:
            changed = {child: _without(its, parent)}
            yield _Smaller(StructurePart(names[child], names[parent]), changed)


def _without(parents: tuple[int, ...], gone: int) -> tuple[int, ...]:
    return tuple(p for p in parents if p != gone)


class _FamilyScores:
    """Scores by family; a family of two models is scored once."""

    def __init__(self, sizes: tuple[int, ...], records: AttackedRecords, prior: float) -> None:
        self._sizes = sizes
        self._records = records
        self._prior = prior
        self._kept: dict[Family, Roc] = {}

    def roc(self, parents: Mapping[int, tuple[int, ...]]) -> Roc:
        """The attack on the model of these families."""
        members = np.zeros(len(self._records.pool))
        others = np.zeros(len(self._records.others))
        for child, its in parents.items():
            column = self._column(Family(child, its, self._sizes))
            members += column.members
            others += column.others
        return Roc(members, others)

    def _column(self, family: Family) -> Roc:
        if family not in self._kept:
            change = self._log_table(family, self._records.pool)
            change -= self._log_table(family, self._records.reference)
            scored = (
                family.looked_up(change, r) for r in (self._records.pool, self._records.others)
            )
            self._kept[family] = Roc(*scored)
        return self._kept[family]

    def _log_table(self, family: Family, records: Codes) -> Table:
        return np.asarray(np.log(normalised(family.counts(records) + self._prior)))


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
    """Areas under the curves; guessing has 1/2.

    Args:
        model_bound: of the model's parameters alone.
        bound: of what is released.
        limit: of the lesser of bound and cap.
    """

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

    def with_attack(self, roc: Roc, measured: tuple[MeasuredEffect, ...]) -> TracingReport:
        """The report with an attack on private records added; the decision stays the same.

        Args:
            roc: scores of members and others.
            measured: effects of parts on the attack.
        """
        power = tuple(roc.power(self.curves.fpr).tolist())
        return replace(
            self,
            curves=replace(self.curves, attack=power),
            areas=replace(self.areas, attack=roc.auc),
            measured=measured,
            private=True,
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

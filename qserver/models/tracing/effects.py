"""The effect of one attribute or one edge on the power of tracing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qserver.models.network.network import Table, normalised
from qserver.models.network.structure import Structure, complexity, complexity_of
from qserver.models.tracing.attack import (
    Codes,
    Family,
    Roc,
    SampleEstimate,
    check_prior,
    check_records,
)
from qserver.models.tracing.bound import TracingBound


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

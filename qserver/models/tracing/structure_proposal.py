"""A proposal for a network's structure: the richest one found that passes a gate on tracing.

This is the greedy search of Murakonda et al. (section 2.1) with a bound on parameters, and their
bound on tracing for the gate. It uses only correlations of earlier releases and public figures. So
neither the structure nor a refusal reveals anything new about private records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf

from scipy.special import ndtri

from qserver.errors import InputError
from qserver.models.network.structure import (
    Correlations,
    Structure,
    complexity,
    greedy_structure,
    structure_of_edges,
    total_score,
)
from qserver.models.tracing.bound import GateDecision, ReleaseGate, max_power_at_fpr
from qserver.models.tracing.report import AuditRequest

_MOST_ROUNDS = 8
Audit = Callable[[Structure], AuditRequest]


@dataclass(frozen=True)
class Candidates:
    """The candidate structures.

    Args:
        labels: the labels of each variable, by name.
        corr: correlations, from public or released data.
        max_parents: most parents of a variable.
        min_gain: least gain of an arrow.
        max_cells: most cells of a variable with its parents.
        fits: whether a structure can be learnt at all; one without edges always counts as fitting.
    """

    labels: Mapping[str, Sequence[str]]
    corr: Correlations
    max_parents: int
    min_gain: float
    max_cells: float
    fits: Callable[[Structure], bool]

    def at_most(self, max_complexity: float) -> Structure:
        """The greedy structure with at most this many parameters."""
        return greedy_structure(
            self.labels,
            self.corr,
            max_parents=self.max_parents,
            min_gain=self.min_gain,
            max_complexity=max_complexity,
            max_cells=self.max_cells,
        )


@dataclass(frozen=True)
class Proposal:
    """A structure and the decision about it.

    Args:
        structure: network, without edges if no structure passes the gate.
        score: sum of the scores of its attributes' parents.
        request: the subject of its audit, with the gate.
        decision: the decision of the gate.
    """

    structure: Structure
    score: float
    request: AuditRequest
    decision: GateDecision


def proposed_structure(candidates: Candidates, audit: Audit) -> Proposal:
    """The richest structure found that passes the gate; else the one without edges.

    The search bisects over the allowed number of parameters. Whether a structure passes is decided
    by its own audit, so every proposal with edges passes.

    Args:
        audit: the audit of a structure, including its gate.

    Raises:
        InputError: a value is out of range, or there is no gate.
    """
    whole = candidates.at_most(inf)
    best = _judged(structure_of_edges(candidates.labels, ()), candidates, audit)
    if not best.decision.passes or not whole.edges:
        return best
    if (found := _passing(whole, candidates, audit)) is not None:
        return found
    low = complexity(best.structure)
    high = int(min(complexity(whole), _most_parameters(best.request) + 1))
    for _ in range(_MOST_ROUNDS):
        middle = (low + high) // 2
        if middle <= low:
            break
        found = _passing(candidates.at_most(middle), candidates, audit)
        if found is None:
            high = middle
        else:
            low, best = middle, max(best, found, key=lambda proposal: proposal.score)
    return best


def _passing(structure: Structure, candidates: Candidates, audit: Audit) -> Proposal | None:
    if not candidates.fits(structure):
        return None
    found = _judged(structure, candidates, audit)
    return found if found.decision.passes else None


def _judged(structure: Structure, candidates: Candidates, audit: Audit) -> Proposal:
    request = audit(structure)
    decision = max_power_at_fpr(request.limit, _gate(request))
    return Proposal(structure, total_score(structure, candidates.corr), request, decision)


def _gate(request: AuditRequest) -> ReleaseGate:
    if request.gate is None:
        raise InputError("gate", "be given")
    return request.gate


def _most_parameters(request: AuditRequest) -> float:
    """The most parameters of any passing structure.

    If epsilon alone satisfies the gate, there is no limit. Otherwise the gate requires
    Phi(sqrt(C/n) + z_fpr) <= max_power, and tables have at least as many numbers as the model.
    """
    gate, cap = _gate(request), request.cap
    if gate.max_power >= 1 or (cap is not None and cap.power(gate.fpr) <= gate.max_power):
        return inf
    reach = float(ndtri(gate.max_power) - ndtri(gate.fpr))
    return floor(min(request.n * reach * reach, 2.0**62))

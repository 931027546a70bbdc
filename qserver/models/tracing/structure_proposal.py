"""A structure for a network, as rich as a cap on what it could leak lets it be.

The greedy search of Murakonda et al. (section 2.1) with a bound on parameters, and their bound on
tracing as the cap. It sees correlations of what was released before and public figures alone, so
that neither the structure nor its refusal tells anything new of private records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf

from scipy.special import ndtri

from qserver.errors import InputError
from qserver.models.network.complexity import complexity
from qserver.models.network.greedy_structure import Correlations, greedy_structure, total_score
from qserver.models.network.structure import Structure, structure_of_edges
from qserver.models.tracing.gate import GateDecision, ReleaseGate, max_power_at_fpr
from qserver.models.tracing.report import AuditRequest

_MOST_ROUNDS = 8
Audit = Callable[[Structure], AuditRequest]


@dataclass(frozen=True)
class Candidates:
    """What structures are chosen from.

    Args:
        labels: the labels of each variable, by name.
        corr: correlations, from public or released data.
        max_parents: most parents of a variable.
        min_gain: what an arrow must gain.
        max_cells: most cells of a variable with its parents.
        fits: whether a structure can be learnt at all; one without edges is taken to fit.
    """

    labels: Mapping[str, Sequence[str]]
    corr: Correlations
    max_parents: int
    min_gain: float
    max_cells: float
    fits: Callable[[Structure], bool]

    def at_most(self, max_complexity: float) -> Structure:
        """The greedy structure of so many parameters at most."""
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
    """A structure, and what was decided of it.

    Args:
        structure: without edges where not even that passes.
        score: the sum of its scores, by equation 3 of the paper.
        request: what an audit of it is asked about, with the gate.
        decision: of the gate.
    """

    structure: Structure
    score: float
    request: AuditRequest
    decision: GateDecision


def proposed_structure(candidates: Candidates, audit: Audit) -> Proposal:
    """The richest structure found that passes the gate; else one without edges.

    Greedy structures are tried by the parameters that they may have, by halves: what passes is what
    an audit of that very structure says, so no proposal fails it.

    Args:
        audit: the audit of a structure, its gate included.

    Raises:
        InputError: a value is out of range, or no gate is given.
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
    """Parameters that no passing structure exceeds.

    Where epsilon alone keeps within the gate there is no such bound. Else the gate asks for
    Phi(sqrt(C/n) + z_fpr) <= max_power, and tables tell no less than the model.
    """
    gate, cap = _gate(request), request.cap
    if gate.max_power >= 1 or (cap is not None and cap.power(gate.fpr) <= gate.max_power):
        return inf
    reach = float(ndtri(gate.max_power) - ndtri(gate.fpr))
    return floor(min(request.n * reach * reach, 2.0**62))

"""Structures under a cap on what they could leak, against every bound on parameters tried."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.errors import InputError
from qserver.models.network.structure import Structure, complexity, total_score
from qserver.models.tracing.bound import PrivacyCap, ReleaseGate, max_power_at_fpr
from qserver.models.tracing.report import AuditRequest, Release, structural_report
from qserver.models.tracing.structure_proposal import Audit, Candidates, proposed_structure
from tests.models.structures import labels_of

SIZES = dict(zip("abcdef", (2, 3, 2, 4, 3, 2), strict=True))
BARE = sum(size - 1 for size in SIZES.values())
N = 1000


def candidates(seed: int, *, most_edges: int = 100) -> Candidates:
    upper = np.triu(np.random.default_rng(seed).random((6, 6)), 1)
    return Candidates(
        labels_of(SIZES),
        upper + upper.T + np.eye(6),
        max_parents=2,
        min_gain=0.01,
        max_cells=1000,
        fits=lambda structure: len(structure.edges) <= most_edges,
    )


def audit(
    gate: ReleaseGate, *, release: Release = "tables", cap: PrivacyCap | None = None
) -> Audit:
    return lambda structure: AuditRequest(structure, N, release=release, cap=cap, gate=gate)


def passes(structure: Structure, asked: Audit) -> bool:
    request = asked(structure)
    assert request.gate is not None
    return max_power_at_fpr(request.limit, request.gate).passes


@pytest.mark.parametrize("max_power", [0.055, 0.06, 0.065, 0.07, 0.08, 0.2, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_parameters_are_as_many_as_the_gate_allows(seed: int, max_power: float) -> None:
    """Of the model alone what passes is monotone: the greatest bound that passes is tried."""
    asked, own = audit(ReleaseGate(0.05, max_power), release="model"), candidates(seed)
    found = proposed_structure(own, asked)
    allowed = [b for b in range(BARE, 200) if passes(own.at_most(b), asked)]
    if not allowed:
        assert not found.decision.passes
        assert found.structure.edges == ()
        return
    assert found.decision.passes
    assert found.decision == structural_report(found.request).decision
    most = own.at_most(max(allowed))
    assert complexity(found.structure) <= max(allowed)
    assert found.score >= total_score(most, own.corr)


@pytest.mark.parametrize("epsilon", [None, 0.01, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_proposal_fails_the_audit_of_its_own_structure(seed: int, epsilon: float | None) -> None:
    cap = None if epsilon is None else PrivacyCap(epsilon)
    gate = ReleaseGate(0.05, 0.075)
    found = proposed_structure(candidates(seed), audit(gate, cap=cap))
    again = structural_report(AuditRequest(found.structure, N, cap=cap, gate=gate)).decision
    assert again == found.decision
    assert found.decision.passes
    assert found.structure.edges
    if epsilon == 0.01:
        # Epsilon alone keeps within the gate: the whole structure is proposed.
        whole = candidates(seed).at_most(float("inf"))
        assert (found.structure, found.decision.decided_by) == (whole, "cap")


def test_where_nothing_passes_the_refusal_is_told() -> None:
    found = proposed_structure(candidates(1), audit(ReleaseGate(0.05, 0.0501)))
    assert not found.decision.passes
    assert found.structure.edges == ()
    assert "exceeds the 0.0501" in found.decision.reason
    assert found.score == 0.0


def test_what_cannot_be_learnt_is_not_proposed() -> None:
    """Whatever the gate: three edges at most."""
    found = proposed_structure(candidates(2, most_edges=3), audit(ReleaseGate(0.05, 1.0)))
    assert 0 < len(found.structure.edges) <= 3


def test_without_a_gate_there_is_no_cap() -> None:
    with pytest.raises(InputError, match="gate"):
        proposed_structure(candidates(1), lambda structure: AuditRequest(structure, N))


def test_attributes_that_tell_nothing_of_one_another_stay_alone() -> None:
    own = Candidates(labels_of(SIZES), np.eye(6), 2, 0.0, 1000, lambda _structure: True)
    assert proposed_structure(own, audit(ReleaseGate(0.05, 1.0))).structure.edges == ()

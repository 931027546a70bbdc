"""The audit's report and its plot."""

from __future__ import annotations

import json
from math import inf

import numpy as np
import pytest

from qserver.answering.plots.figures import tracing_chart
from qserver.errors import InputError
from qserver.models.network.learning.allocations import choose_tables
from qserver.models.network.structure import IndependentNumbers, table_complexity
from qserver.models.tracing.attack import Roc, SampleEstimate
from qserver.models.tracing.bound import PrivacyCap, ReleaseGate, TracingBound
from qserver.models.tracing.report import (
    AuditRequest,
    MeasuredEffect,
    StructurePart,
    TracingReport,
    structural_report,
)
from tests.models.structures import sized

GATE = ReleaseGate(0.05, 0.1)
COLLIDER = sized({"a": 2, "b": 2, "c": 2}, [("a", "c"), ("b", "c")])


def report(**more: object) -> TracingReport:
    return structural_report(AuditRequest(COLLIDER, 100, **more))  # type: ignore[arg-type]


def attacked() -> TracingReport:
    rng = np.random.default_rng(1)
    roc = Roc(rng.normal(1, 1, 50), rng.normal(0, 1, 50))
    effects = (MeasuredEffect(StructurePart("a"), SampleEstimate(0.1, 0.01)),)
    return report(gate=ReleaseGate(0.05, 0.05)).with_attack(roc, effects)


@pytest.mark.parametrize(("release", "numbers"), [("model", 6), ("tables", 7)])
def test_the_bound_counts_what_is_released(release: str, numbers: int) -> None:
    found = report(release=release)
    assert found.areas.bound == TracingBound(numbers, 100).auc
    assert found.areas.model_bound == TracingBound(6, 100).auc


def test_a_finite_reference_set_has_a_curve_of_its_own_and_opens_no_gate() -> None:
    gate = ReleaseGate(0.05, 0.085)
    known, unknown = (report(n_reference=n, gate=gate) for n in (50, inf))
    assert unknown.curves.finite_bound is None
    assert known.curves.finite_bound is not None
    assert max(known.curves.finite_bound) <= max(known.curves.bound)
    assert known.areas.finite_bound == TracingBound(7, 100, 50).auc
    assert known.decision == unknown.decision


def test_an_attack_changes_neither_bounds_nor_decision() -> None:
    before, after = report(gate=ReleaseGate(0.05, 0.05)), attacked()
    assert after.private
    assert after.decision == before.decision
    assert after.curves.bound == before.curves.bound
    assert after.areas.attack is not None


def test_a_report_is_json_and_names_every_part() -> None:
    document = json.loads(json.dumps(attacked().to_document()))
    assert document["private"] is True
    assert document["complexity"] == 6
    assert document["table_complexity"] == 7
    assert len(document["effects"]) == 3 + 2
    assert document["measured_effects"][0]["name"] == "a"
    assert document["decision"]["passes"] is False
    lengths = {len(curve) for curve in document["curves"].values() if curve is not None}
    assert len(lengths) == 1


def test_the_plot_has_a_line_for_each_curve_that_applies() -> None:
    plain = [m.label for m in tracing_chart(report()).marks]
    assert [label.partition(",")[0] for label in plain] == [
        "what structure and epsilon allow",
        "structural bound",
        "guessing",
    ]
    full = report(cap=PrivacyCap(1.0), n_reference=50)
    names = [m.label.partition(",")[0] for m in tracing_chart(full).marks]
    assert names[2:4] == ["bound with 50 reference records", "cap of epsilon 1"]
    drawn = tracing_chart(attacked())
    assert drawn.title.startswith("PRIVATE. ")
    assert any(m.label.startswith("attack, area 0.") for m in drawn.marks)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: AuditRequest(COLLIDER, 0), "`records`"),
        (lambda: AuditRequest(COLLIDER, 10, n_reference=0), "`reference_records`"),
        (lambda: AuditRequest(COLLIDER, 10, release="all"), "release"),  # type: ignore[arg-type]
        (lambda: AuditRequest(sized({"a": 1}, []), 10), "two values"),
    ],
)
def test_an_audit_of_nothing_is_refused(make: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_with_an_epsilon_the_tables_count_that_learning_would_buy() -> None:
    """Four binary variables in a chain: one table of all tells 15 numbers, three of two 7."""
    chain = sized(dict.fromkeys("abcd", 2), [("a", "b"), ("b", "c"), ("c", "d")])
    bought = choose_tables(chain, epsilon=0.3)
    private = AuditRequest(chain, 100, cap=PrivacyCap(0.3))
    assert AuditRequest(chain, 100).complexity == 7
    told = table_complexity(chain.sizes, [t.scope for t in bought])
    assert private.complexity == told.count
    assert AuditRequest(chain, 100, cap=PrivacyCap(1.0), release="model").complexity == 7


def test_where_no_tables_are_chosen_the_bound_counts() -> None:
    """A child of 14 binary parents beside 286 variables of its own kind: too many parts."""
    roots = [f"x{i}" for i in range(300)]
    wide = sized(dict.fromkeys([*roots, "y"], 2), [(p, "y") for p in roots[:14]])
    found = structural_report(AuditRequest(wide, 100, cap=PrivacyCap(1.0), gate=GATE))
    # 286 roots may merge to tables of 4,096 cells, two to a table or more; y's family cannot.
    assert found.request.in_tables == IndependentNumbers(2**15 - 1 + 286 * 2048, is_exact=False)
    assert found.to_document()["table_complexity_is_exact"] is False
    without = structural_report(AuditRequest(wide, 100))
    assert found.areas.bound >= without.areas.bound
    assert without.request.in_tables == IndependentNumbers(2**15 - 1 + 286, is_exact=True)
    assert found.decision is not None
    assert not found.decision.passes


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-9, 1e9, 1e300])
def test_any_epsilon_that_can_be_stated_is_audited(epsilon: float) -> None:
    found = report(cap=PrivacyCap(epsilon))
    assert found.areas.limit >= 0.5 - 1e-6
    assert found.request.complexity >= 6

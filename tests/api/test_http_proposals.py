"""Structures proposed over HTTP: what is asked, what is told, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.calls import AUDIT, PROPOSAL, Caller
from tests.api.fake_service import FakeService

PATH = "/v1/datasets/adult/models/m1/structure"
AUDIT_PATH = "/v1/datasets/adult/models/audit"


def proposed(caller: Caller, **change: Any) -> Any:
    reply = caller.post(PATH, PROPOSAL | change)
    assert reply.status == 200, reply.document
    return reply.document


def test_a_structure_comes_with_what_an_audit_says_of_it(caller: Caller) -> None:
    """The model correlates sex and income by 0.4: one edge, whose first child is sex."""
    found = proposed(caller, epsilon=1)
    assert found["network"] == {"variables": ["sex", "income"], "edges": [["income", "sex"]]}
    assert found["score"] == 0.4
    assert found["complexity"] == 1 + 2 * 2
    audit = {"epsilon": 1, "records": 5000, "network": found["network"], "gate": PROPOSAL["gate"]}
    said = caller.post(AUDIT_PATH, AUDIT | audit).document
    assert {name: found[name] for name in ("decision", "table_complexity")} == {
        name: said[name] for name in ("decision", "table_complexity")
    }


@pytest.mark.parametrize(
    ("change", "edges"),
    [
        ({"max_parents": 0}, []),
        ({"min_gain": 0.5}, []),
        ({"min_gain": 0.3}, [["income", "sex"]]),
        ({"records": 700, "gate": {"fpr": 0.05, "max_power": 0.056}}, []),
    ],
)
def test_bounds_are_kept(caller: Caller, change: dict[str, Any], edges: list[list[str]]) -> None:
    assert proposed(caller, **change)["network"]["edges"] == edges


def test_where_nothing_passes_the_gate_s_reason_is_told(caller: Caller) -> None:
    found = proposed(caller, records=5)
    assert found["network"]["edges"] == []
    assert found["decision"]["passes"] is False


def test_a_proposal_asks_a_model_and_the_dataset_s_public_face_alone(
    caller: Caller, service: FakeService
) -> None:
    proposed(caller, variables=["sex", "income"])
    calls = [one for one in service.calls if one[0] not in ("identify", "authenticate")]
    assert [name for name, _ in calls] == ["dataset", "correlations_of_model"]
    assert calls[1][1]["variables"] == ["sex", "income"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"records": 0}, "records"),
        ({"gate": None}, "gate"),
        ({"gate": {"fpr": 0.5, "max_power": 0.1}}, "gate.max_power"),
        ({"max_parents": 9}, "max_parents"),
        ({"max_parents": True}, "max_parents"),
        ({"max_parents": 1.5}, "max_parents"),
        ({"min_gain": -1}, "min_gain"),
        ({"min_gain": "x"}, "min_gain"),
        ({"variables": "sex"}, "variables"),
        ({"variables": [1]}, "variables"),
        ({"epsilon": -1}, "epsilon"),
        ({"reference_records": 5}, "reference_records"),
    ],
)
def test_what_cannot_be_proposed_is_refused_by_field(
    caller: Caller, change: dict[str, Any], field: str
) -> None:
    reply = caller.post(PATH, PROPOSAL | change)
    assert (reply.status, reply.document["code"]) == (422, "invalid_input"), reply.document
    assert reply.document["errors"][0]["field"].startswith(field)


def test_a_model_that_is_not_there_is_not_found(caller: Caller) -> None:
    reply = caller.post("/v1/datasets/adult/models/m2/structure", PROPOSAL)
    assert (reply.status, reply.document["code"]) == (404, "not_found")

"""The audit of a model over HTTP: what it says, what it refuses, and that it asks for no data."""

from __future__ import annotations

from typing import Any

import pytest

from qserver.models.network.structure import complexity
from qserver.models.tracing.bound import TracingBound
from tests.api.calls import AUDIT, Caller
from tests.api.fake_service import FakeService
from tests.models.structures import sized

PATH = "/v1/datasets/adult/models/audit"
BIF = """network n {{ }}
variable sex {{ type discrete [ {n} ] {{ {labels} }}; }}
probability ( sex ) {{ table {numbers}; }}
"""


def bif(n: int) -> str:
    labels = ", ".join(f"l{i}" for i in range(n))
    return BIF.format(n=n, labels=labels, numbers=", ".join([str(1 / n)] * n))


def audited(caller: Caller, **change: Any) -> Any:
    reply = caller.post(PATH, AUDIT | change)
    assert reply.status == 200, reply.document
    return reply.document


def test_the_bound_is_that_of_the_attributes_named_and_the_records_stated(caller: Caller) -> None:
    """`sex` has three values with `other`, `age` ten, `income` two."""
    found = audited(caller, release="model")
    expected = complexity(sized({"age": 10, "sex": 3, "income": 2}, [("sex", "income")]))
    assert found["complexity"] == expected == 9 + 2 + 3
    assert found["auc"]["bound"] == TracingBound(expected, 500).auc
    assert found["cap"] is None
    assert found["decision"]["decided_by"] == "bound"


def test_the_cap_takes_the_dataset_s_neighbours(caller: Caller) -> None:
    replaced = audited(caller, epsilon=0.5)["cap"]
    added = audited(caller, epsilon=0.5, game="added")["cap"]
    assert (replaced["relation"], replaced["exponent"], added["exponent"]) == ("add-remove", 1, 0.5)


def test_bif_text_is_taken_where_it_fits_the_domain(caller: Caller) -> None:
    assert audited(caller, network=bif(3))["complexity"] == 2


def test_an_audit_reads_the_dataset_s_public_face_and_nothing_else(
    caller: Caller, service: FakeService
) -> None:
    audited(caller, epsilon=1)
    assert [name for name, _ in service.calls if name not in ("identify", "authenticate")] == [
        "dataset"
    ]


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"records": 0}, "invalid_input", "records"),
        ({"records": "many"}, "invalid_input", "records"),
        ({"epsilon": -1}, "invalid_input", "epsilon"),
        ({"game": "neither"}, "invalid_input", "game"),
        ({"release": "all"}, "invalid_input", "release"),
        ({"reference_records": 0}, "invalid_input", "reference_records"),
        ({"gate": {"fpr": 0.05}}, "invalid_input", "gate.max_power"),
        ({"gate": {"fpr": 0.5, "max_power": 0.1}}, "invalid_input", "gate.max_power"),
        ({"more": 1}, "invalid_input", "more"),
        ({"network": bif(2)}, "invalid_network", "sex"),
        ({"network": "no BIF"}, "invalid_network", "network, line 1"),
        ({"network": 5}, "invalid_network", "network"),
        ({"network": {}}, "invalid_network", "network"),
        ({"network": {"edges": [["sex"]]}}, "invalid_network", "network.edges"),
        ({"network": {"edges": [["sex", 1]]}}, "invalid_network", "network"),
        ({"network": {"edges": {}}}, "invalid_network", "network.edges"),
        ({"network": {"edges": [["sex", "height"]]}}, "invalid_network", "network"),
        ({"network": {"edges": [["sex", "age"], ["age", "sex"]]}}, "invalid_network", "edges"),
        ({"network": {"variables": ["sex"] * 257}}, "invalid_network", "network.variables"),
    ],
)
def test_what_cannot_be_audited_is_refused_by_field(
    caller: Caller, change: dict[str, Any], code: str, field: str
) -> None:
    reply = caller.post(PATH, AUDIT | change)
    assert (reply.status, reply.document["code"]) == (422, code), reply.document
    assert reply.document["errors"][0]["field"] == field

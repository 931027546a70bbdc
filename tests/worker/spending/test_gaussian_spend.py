"""A population under zcdp, end to end on a real worker: asked, answered again, refused, killed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.deployment import ROWS, Deployment

DELTA = Fraction(1, 10**9)
N_MEN = sum(sex == "Male" for _, sex in ROWS)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="4", delta=DELTA)


def test_try(town: Deployment) -> None:
    a = town.ask({"sex": "Male"}, length=60)
    print(a)
    b = town.ask({"sex": "Male"}, length=60)
    print(b)
    c = town.ask({"sex": "Male"}, length=40)
    print(c)
    d = town.ask({"sex": "Female"}, length=40)
    print(d)
    e = town.ask_workload(town.workload([{"age": i} for i in range(20, 30)], length=50))
    print(e)
    print(town.service().dataset("people"))
    print(
        town.service().explain(
            "people",
            town.service().parse("people", {"where": {"sex": "Male", "age": 22}}),
            d
            and __import__("qserver.query.requirement", fromlist=["Requirement"]).Requirement(
                40, 0.95
            ),
        )
    )
    assert 0

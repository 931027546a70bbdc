"""A workload's numbers after all of them were looked at, over HTTP and in jobs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from qserver.errors import InputError
from qserver.query.asking.after_looking import Selection
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from tests.deployment import Deployment

AGES = [{"age": age} for age in range(20, 30)]
WIDER = math.log(10 / 0.05) / math.log(20)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="100")


def asked(town: Deployment, **more: Any) -> dict[str, Any]:
    document = {
        "questions": [{"query": {"where": where}} for where in AGES],
        "length": 40,
        "confidence": 0.95,
        **more,
    }
    web = town.web()
    reply = web.post("/v1/datasets/people/workload", json=document)
    if reply.status_code == 202:
        town.work_off()
        job = web.get(f"/v1/jobs/{reply.get_json()['id']}").get_json()
        assert job["state"] == "done", job
        again = web.post("/v1/datasets/people/workload", json=document).get_json()
        # What a job found is what history answers afterwards.
        assert again["after_looking"] == job["result"]["after_looking"]
        assert job["result"]["answers"][3]["interval"] == again["answers"][3]["interval"]
        return dict(again)
    assert reply.status_code == 200, reply.get_json()
    return dict(reply.get_json())


def test_beside_a_workload_stand_the_readings_after_looking(town: Deployment) -> None:
    found = asked(town)
    looked = found["after_looking"]
    assert looked["m"] == len(AGES)
    for i, answer in enumerate(found["answers"]):
        low, high = answer["interval"]
        half = (high - low) / 2
        assert answer["selected_from"] is None
        for name, below, above in (
            ("at_once", WIDER, WIDER),
            ("largest", WIDER, 1.0),
            ("least", 1.0, WIDER),
        ):
            ends = looked[name][i]
            assert answer["estimate"] - ends[0] == pytest.approx(half * below, rel=1e-3)
            assert ends[1] - answer["estimate"] == pytest.approx(half * above, rel=1e-3)


def test_a_workload_that_says_how_it_is_chosen_from_has_these_intervals_for_its_price(
    town: Deployment,
) -> None:
    plain = asked(town)
    found = asked(town, selected_from={"m": 10, "rule": "largest"})
    assert found["epsilon_charged"] == 0
    assert found["after_looking"] is None
    assert [a["interval"] for a in found["answers"]] == plain["after_looking"]["largest"]
    assert found["answers"][0]["selected_from"] == {"m": 10, "rule": "largest", "first": 1}
    # Of more numbers that were looked at, and more that are reported, less is known.
    more = asked(town, selected_from={"m": 30, "rule": "largest", "first": 3})
    for few, many in zip(found["answers"], more["answers"], strict=True):
        assert many["interval"][0] < few["interval"][0]
        assert many["interval"][1] > few["interval"][1]


def test_a_workload_bought_with_a_choice_costs_what_it_costs_without(
    town: Deployment, tmp_path: Path
) -> None:
    price = town.web().post(
        "/v1/datasets/people/workload/explain",
        json={
            "questions": [{"query": {"where": where}} for where in AGES],
            "length": 40,
            "confidence": 0.95,
        },
    )
    assert asked(town, selected_from={"m": 10})["answers"]
    spent = town.service().dataset("people").spent_nano
    assert spent / 1e9 == price.get_json()["price"]


def test_intervals_that_hold_at_once_need_no_other_reading(town: Deployment) -> None:
    assert asked(town, simultaneous=True)["after_looking"] is None


def test_a_choice_among_fewer_numbers_than_are_shown_is_refused(town: Deployment) -> None:
    reply = town.web().post(
        "/v1/datasets/people/workload",
        json={
            "questions": [{"query": {"where": where}} for where in AGES],
            "length": 40,
            "confidence": 0.95,
            "selected_from": {"m": 9},
        },
    )
    assert reply.status_code == 422
    [error] = reply.get_json()["errors"]
    assert error["field"] == "selected_from.m"
    assert "at least 10" in error["message"]


def test_a_choice_from_intervals_that_hold_at_once_is_refused(town: Deployment) -> None:
    query = town.service().parse("people", {"where": {}})
    question = Question(query, Requirement(40, 0.95))
    with pytest.raises(InputError, match="left out where `simultaneous`"):
        Workload((question,) * 2, simultaneous=True, selected_from=Selection(2))

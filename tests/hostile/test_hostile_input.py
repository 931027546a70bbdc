"""A real server stands what is made to bring it down. Longer: `python -m tests.hostile`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.document_run import run_document
from tests.hostile.forms import hostile_forms, try_form
from tests.hostile.inputs import hostile_inputs, hostile_workloads
from tests.hostile.route_inputs import route_inputs
from tests.hostile.stage import Stage, running_stage
from tests.hostile.trial import try_input
from tests.sweeps import is_whole, share

pytestmark = [
    pytest.mark.slow,
    pytest.mark.promise(
        "Hostile input",
        "huge bodies, nesting, 10^5 terms, NaN, infinities, huge numbers, odd Unicode, unions "
        "that explode: a 4xx that names the place, never a 5xx, no traceback, bounded memory",
    ),
    pytest.mark.promise(
        "Hostile input",
        "forms that no browser would send: a page, never a failure, and nothing typed becomes "
        "part of it",
    ),
    pytest.mark.promise(
        "Hostile input",
        "schemathesis finds nothing in the OpenAPI document",
    ),
]

MOST_GROWTH_MEGABYTES = 200


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The server of this file; nothing of it is set back between tests."""
    with running_stage(tmp_path_factory.mktemp("hostile"), wait_s=2) as found:
        yield found


def test_every_hostile_input_gets_its_refusal_within_bounded_memory(stage: Stage) -> None:
    before = stage.peak_megabytes()
    trials = [try_input(h, stage=stage, kind="query") for h in share(hostile_inputs(), 20)]
    trials += [try_input(h, stage=stage, kind="workload") for h in share(hostile_inputs(), 8)]
    trials += [try_input(h, stage=stage, kind="workload") for h in share(hostile_workloads(), 2)]
    trials += [try_input(h, stage=stage) for h in share(route_inputs(stage.model), 30)]
    assert [t for t in trials if t.fault] == []
    assert stage.peak_megabytes() - before < MOST_GROWTH_MEGABYTES


def test_every_hostile_form_gets_a_page(stage: Stage) -> None:
    trials = [try_form(form, stage=stage) for form in share(hostile_forms(stage.model), 40)]
    assert [t for t in trials if t.fault] == []
    # Few forms are taken, and a share may have none of them.
    taken = {303} if is_whole() else set[int]()
    assert {200, 404, 422} | taken <= {t.status for t in trials}


@pytest.mark.whole
def test_schemathesis_finds_nothing_in_the_document(stage: Stage, tmp_path: Path) -> None:
    run = run_document(
        stage,
        dataset="people",
        seed=1,
        n_examples=2,
        phases=("coverage", "fuzzing"),
        folder=tmp_path,
    )
    assert run.findings == (), run.output
    assert run.n_operations >= 13
    assert run.n_cases > 500


def test_no_input_left_a_traceback_in_the_logs(stage: Stage) -> None:
    for path in stage.logs.iterdir():
        assert "Traceback" not in path.read_text(), path.name

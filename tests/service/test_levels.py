"""A count by a level is free once its labels were answered, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer
from qserver.service.statement_answers import StatementAnswer
from qserver.service.statements import Statements
from tests.deployment import Deployment
from tests.districts import DISTRICTS, IN_REGION, districts
from tests.service.test_statements import answered, explained, spent

LENGTH = 40.0
CONFIDENCE = 1 - 1e-9
NORTH = "SELECT COUNT(*) FROM people WHERE region = 'North' WITHIN 40 CONFIDENCE 0.999999999"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return districts(tmp_path, store_url)


def count(town: Deployment, where: dict[str, object], length: float) -> Answer | None:
    """The answer if it is free; else None, and its job waits."""
    service = town.service()
    query = service.parse("people", {"where": where})
    found = service.ask("people", Question(query, Requirement(length, CONFIDENCE)), wait_s=0)
    return found if isinstance(found, Answer) else None


@pytest.mark.slow
def test_a_region_is_free_after_all_of_its_districts(town: Deployment) -> None:
    counts, kinds = {}, []
    for district in DISTRICTS:
        assert count(town, {"district": district}, LENGTH) is None
        town.work_off()
        found = count(town, {"district": district}, LENGTH)
        assert found
        counts[district] = found.estimate
        kinds.append(explained(town, NORTH).kind)
    # North has the first two of them.
    assert [kind == "free" for kind in kinds] == [False, True, True, True]
    before = spent(town)
    for region, members in (("North", DISTRICTS[:2]), ("South", DISTRICTS[2:])):
        whole = count(town, {"region": region}, 2 * LENGTH)
        assert whole
        assert (whole.charged_nano, whole.source) == (0, "history")
        assert whole.estimate == pytest.approx(sum(counts[name] for name in members), abs=1e-6)
        # Twice what each district may be off at this confidence: no run fails by its noise.
        assert abs(whole.estimate - IN_REGION[region]) <= 2 * LENGTH
    assert spent(town) == before
    # More exactly than the districts are known it is measured.
    assert count(town, {"region": "North"}, LENGTH / 2) is None


def test_a_table_by_region_is_free_after_that_by_district(town: Deployment) -> None:
    tail = "WITHIN 20 CONFIDENCE 0.999999999"
    parts = answered(town, f"SELECT district, COUNT(*) AS n FROM people GROUP BY district {tail}")
    before = spent(town)
    text = "SELECT region, COUNT(*) AS n FROM people GROUP BY region WITHIN 40"
    found = Statements(town.service()).run(
        "people", f"{text} CONFIDENCE 0.999999999", wait_s=0, spends=False
    )
    assert isinstance(found, StatementAnswer)
    sums = [row[0].value.estimate for row in parts.cells]
    assert [row[0].value.estimate for row in found.cells] == pytest.approx(
        [sums[0] + sums[1], sums[2] + sums[3]], abs=1e-6
    )
    assert spent(town) == before > 0

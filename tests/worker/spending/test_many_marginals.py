"""A survey's pairs, more than a model once took, learnt by a real worker and stated before."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest

from qserver.config import Settings
from qserver.query.domain import Attribute, Domain
from qserver.records.answer import ModelAnswer
from qserver.records.charge import NANO
from qserver.storage.spend import SpendingStore
from tests.deployment import Deployment
from tests.worker.learn_models import learn
from worker.owner.attach import AttachRequest, attach
from worker.private.registry import Registry

N_ATTRIBUTES = 24
NAMES = tuple(f"q{i:02d}" for i in range(N_ATTRIBUTES))
SURVEY = Domain(tuple(Attribute(n, "labels", labels=("no", "yes")) for n in NAMES))
PAIRS = [list(pair) for pair in combinations(NAMES, 2)]


def surveyed(folder: Path, store_url: str) -> Deployment:
    """400 answers to 24 questions, under a limit of 10."""
    settings = Settings(
        redis_url=store_url, state_dir=folder, slot_ms=0, lease_ms=60_000, open_access=True
    )
    data, registry = folder / "survey.csv", Registry(folder)
    answers = [[("no", "yes")[(i >> (j % 8)) & 1] for j in range(N_ATTRIBUTES)] for i in range(400)]
    data.write_text("\n".join(map(",".join, [NAMES, *answers])) + "\n")
    request = AttachRequest(
        name="people",
        data=data,
        domain=SURVEY,
        limit=Fraction(10),
        relation="add-remove",
        population="town",
        records_per_person=1,
    )
    meta = attach(request, settings=settings, registry=registry, progress=lambda _text: None)
    SpendingStore.open(settings).queue.beat(["town"], worker="test", ttl_ms=600_000)
    return Deployment(settings, registry, meta, data)


@pytest.mark.slow
def test_all_pairs_of_a_survey_make_one_model(tmp_path: Path, store_url: str) -> None:
    at = surveyed(tmp_path, store_url)
    document = {"marginals": PAIRS, "selection": "listed"}
    models = at.service().models
    stated = models.explain("people", "marginals", document, 5 * NANO)
    assert stated.work is not None
    assert stated.work.n_tables == len(stated.tables) == len(PAIRS) > 256
    found = learn(at, "marginals", document, 5.0)
    assert isinstance(found, ModelAnswer)
    assert found.charged_nano == stated.price_nano
    assert len(found.tables) == len(PAIRS)
    facts = at.service().models.one("people", found.id).facts
    assert facts is not None
    assert len(facts["tables"]) == len(PAIRS)

"""Attach and detach on a real store: refusals, dying half-way, populations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import ConfigError, NotFoundError
from qserver.query.requirement import DEFAULT_PHI
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, Deployment
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach
from worker.owner.checks.population import parse_limit
from worker.private.registry import Registry


def quiet(_text: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def a_request(town: Deployment, **changes: object) -> AttachRequest:
    made = AttachRequest(
        name="people",
        data=town.data,
        domain=PEOPLE,
        limit=Fraction(1),
        relation="add-remove",
        population="town",
        records_per_person=1,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("name", "two words", "name"),
        ("name", "", "name"),
        ("population", "a{b}", "population"),
        ("limit", Fraction(0), "limit"),
        ("limit", Fraction(-1), "limit"),
        ("limit", Fraction(1, 10**10), "limit"),
        ("relation", "other", "neighbours"),
        ("records_per_person", 0, "records_per_person"),
        ("phi", 0.04, "phi"),
        ("phi", 21.0, "phi"),
        ("phi", float("nan"), "phi"),
    ],
)
def test_a_wrong_request_names_its_field(
    town: Deployment, field: str, value: object, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"`{named}`"):
        a_request(town, **{field: value})


@pytest.mark.parametrize("text", ["x", "nan", "inf", "1e99", ""])
def test_a_limit_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="`limit`"):
        parse_limit(text)


def test_phi_is_a_public_fact_of_the_dataset(town: Deployment) -> None:
    patient = a_request(town, name="long", phi=0.25)
    attach(patient, settings=town.settings, registry=town.registry, progress=quiet)
    assert Store.open(town.settings).meta("long").phi == 0.25
    assert a_request(town, name="plain").phi == DEFAULT_PHI


def test_a_limit_is_read_exactly() -> None:
    assert parse_limit("0.1") == Fraction(1, 10)


def test_the_same_name_cannot_be_attached_twice(town: Deployment) -> None:
    with pytest.raises(ConfigError, match="attached already"):
        attach(a_request(town), settings=town.settings, registry=town.registry, progress=quiet)


def test_datasets_of_one_population_share_its_budget(town: Deployment) -> None:
    other = a_request(town, name="again")
    attach(other, settings=town.settings, registry=town.registry, progress=quiet)
    charged = town.ask({"age": 20}).charged_nano
    faces = {status.name: status for status in town.service().datasets()}
    assert faces["again"].spent_nano == faces["people"].spent_nano == charged > 0


def test_a_population_has_one_limit(town: Deployment) -> None:
    other = a_request(town, name="again", limit=Fraction(2))
    with pytest.raises(Exception, match="limit"):
        attach(other, settings=town.settings, registry=town.registry, progress=quiet)


class StoreDiedError(BaseException):
    """Stands for SIGKILL between two steps."""


def test_an_attach_that_died_half_way_is_done_again(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object, **_kwargs: object) -> None:
        raise StoreDiedError

    monkeypatch.setattr(SpendingStore, "attach", die)
    again = a_request(town, name="again")
    with pytest.raises(StoreDiedError):
        attach(again, settings=town.settings, registry=town.registry, progress=quiet)
    monkeypatch.undo()
    meta = attach(again, settings=town.settings, registry=town.registry, progress=quiet)
    assert Registry(town.settings.state_dir).entry("again").snapshot == meta.snapshot
    assert set(Store.open(town.settings).datasets()) == {"people", "again"}


def test_detach_keeps_the_spent_budget_for_the_next_attach(town: Deployment) -> None:
    charged = town.ask({"age": 20}).charged_nano
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    with pytest.raises(NotFoundError):
        detach("people", settings=town.settings, registry=town.registry, log=LOG)
    assert town.service().datasets() == []
    attach(a_request(town), settings=town.settings, registry=town.registry, progress=quiet)
    status = town.service().dataset("people")
    assert (status.spent_nano, status.version) == (charged, 0)


def test_the_private_folder_is_closed_to_others(town: Deployment) -> None:
    for path in (town.registry.folder, *town.registry.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0 or path.is_dir(), path
    town.registry.folder.chmod(0o755)
    with pytest.raises(ConfigError, match="closed to others"):
        Registry(town.settings.state_dir)

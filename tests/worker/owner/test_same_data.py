"""The owner is asked when a file holds what another population has already."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import ConfigError
from qserver.query.domain import Attribute, Domain
from qserver.storage.store import Store
from tests.deployment import LOG, PEOPLE, ROWS, Deployment, write_people
from tests.growing import WEEKS, Growing
from tests.worker.earlier import attaching_without_seals
from worker.cli import main
from worker.journal.records import Attached
from worker.owner.attach import AttachRequest, attach
from worker.owner.changes import detach
from worker.owner.rotate import RotateRequest
from worker.private.content_digests import Content

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "the same file, records or people under another population are refused unless the owner "
        "says that they are other people, which is repeated and journalled",
    ),
]

BY_AGE = Domain((PEOPLE.attributes[0],))


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url)


def attach_elsewhere(
    town: Deployment,
    data: Path,
    *,
    population: str = "elsewhere",
    domain: Domain = PEOPLE,
    person_column: str = "",
    other_people: bool = False,
) -> list[str]:
    """Attach a file under another population; what the owner is told."""
    said: list[str] = []
    request = AttachRequest(
        name=f"data-{population}",
        data=data,
        domain=domain,
        limit=Fraction(1),
        relation="add-remove",
        population=population,
        records_per_person=1,
        person_column=person_column,
        same_data_other_people=other_people,
        as_it_is=True,
    )
    attach(request, settings=town.settings, registry=town.registry, progress=said.append)
    return said


def lines_of(town: Deployment, population: str) -> list[Attached]:
    """The snapshots in a population's journal."""
    with town.registry.journal(population, create=False).exclusive() as journal:
        return [record for record in journal.records() if isinstance(record, Attached)]


def shuffled(town: Deployment) -> Path:
    rows = random.Random(4).sample(ROWS, len(ROWS))
    return write_people(town.settings.state_dir / "shuffled.csv", rows)


def people_file(path: Path, rows: Mapping[str, int]) -> Path:
    """A file of persons and their ages."""
    path.write_text("who,age\n" + "".join(f"{who},{age}\n" for who, age in rows.items()))
    return path


def test_the_same_file_is_refused_under_another_population(town: Deployment) -> None:
    with pytest.raises(ConfigError, match="dataset people of population town has the same records"):
        attach_elsewhere(town, town.data)
    assert set(Store.open(town.settings).datasets()) == {"people"}
    assert not town.registry.has_journal("elsewhere")


def test_the_order_of_the_records_does_not_matter(town: Deployment) -> None:
    with pytest.raises(ConfigError, match="has the same records"):
        attach_elsewhere(town, shuffled(town))


def test_another_domain_does_not_hide_the_same_file(town: Deployment) -> None:
    with pytest.raises(ConfigError, match="has the same file"):
        attach_elsewhere(town, town.data, domain=BY_AGE)


def test_the_same_people_with_other_values_are_noticed_by_their_column(
    town: Deployment, tmp_path: Path
) -> None:
    first = people_file(tmp_path / "first.csv", {"ann": 20, "bob": 21})
    later = people_file(tmp_path / "later.csv", {"bob": 29, "ann": 28})
    attach_elsewhere(town, first, population="one", domain=BY_AGE, person_column="who")
    with pytest.raises(ConfigError, match="the same people in the column of persons"):
        attach_elsewhere(town, later, domain=BY_AGE, person_column="who")
    attach_elsewhere(town, later, domain=BY_AGE)  # Without the column nobody can tell.


def test_other_records_ask_for_nothing(town: Deployment) -> None:
    other = write_people(town.settings.state_dir / "other.csv", ROWS[1:])
    assert not any("note" in text for text in attach_elsewhere(town, other))


def test_a_file_without_a_counted_record_is_like_no_other(town: Deployment, tmp_path: Path) -> None:
    domain = Domain((Attribute("age", "integer", edges=tuple(map(Fraction, (90, 95)))),))
    for population in ("one", "two"):
        attach_elsewhere(town, town.data, population=population, domain=domain)


def test_the_owners_word_lets_it_in_and_is_repeated_and_journalled(town: Deployment) -> None:
    said = attach_elsewhere(town, shuffled(town), other_people=True)
    assert any("You declared that nobody in this file is in population town" in s for s in said)
    assert [a.details["other_people_than"] for a in lines_of(town, "elsewhere")] == ["town"]


def test_a_word_that_nobody_needed_is_not_journalled(town: Deployment) -> None:
    other = write_people(town.settings.state_dir / "other.csv", ROWS[1:])
    said = attach_elsewhere(town, other, other_people=True)
    assert any("declares nothing here" in text for text in said)
    assert "other_people_than" not in lines_of(town, "elsewhere")[0].details


def test_a_dataset_that_was_detached_is_remembered(town: Deployment) -> None:
    detach("people", settings=town.settings, registry=town.registry, log=LOG)
    with pytest.raises(ConfigError, match="population town has the same"):
        attach_elsewhere(town, shuffled(town))


def rotate_elsewhere(town: Deployment, *, other_people: bool) -> None:
    request = RotateRequest("data-elsewhere", shuffled(town), same_data_other_people=other_people)
    town.rotated(request)


def test_a_rotation_is_asked_too(town: Deployment) -> None:
    attach_elsewhere(town, write_people(town.settings.state_dir / "other.csv", ROWS[1:]))
    before = Store.open(town.settings).meta("data-elsewhere").snapshot
    with pytest.raises(ConfigError, match="population town has the same records"):
        rotate_elsewhere(town, other_people=False)
    assert Store.open(town.settings).meta("data-elsewhere").snapshot == before
    rotate_elsewhere(town, other_people=True)
    assert lines_of(town, "elsewhere")[-1].details["other_people_than"] == "town"


def test_a_rotation_may_bring_back_the_populations_own_data(town: Deployment) -> None:
    request = RotateRequest("people", shuffled(town))
    town.rotated(request)


class TestAttachedByAnEarlierVersion:
    """Its journal has a digest that depends on the order, and none of these."""

    @pytest.fixture
    def old(self, tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
        with attaching_without_seals(monkeypatch) as earlier:
            earlier.setattr(Content, "details", lambda _self: {})
            town = Deployment.make(tmp_path, store_url)
        assert "same_records" not in lines_of(town, "town")[0].details
        return town

    def test_its_file_is_read_anew(self, old: Deployment) -> None:
        with pytest.raises(ConfigError, match="population town has the same records"):
            attach_elsewhere(old, shuffled(old))

    def test_without_its_file_the_same_order_is_noticed(self, old: Deployment) -> None:
        copy = write_people(old.settings.state_dir / "copy.csv")
        old.data.unlink()
        with pytest.raises(ConfigError, match="population town has the same records"):
            attach_elsewhere(old, copy)

    def test_without_its_file_the_owner_is_told_what_cannot_be_compared(
        self, old: Deployment
    ) -> None:
        old.data.write_text("age,sex\n20,Female\n")
        said = attach_elsewhere(old, shuffled(old))
        assert any(t.startswith("note: dataset people of population town was") for t in said)


def test_the_command_line_names_the_flag_on_the_owners_terminal(
    town: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = tmp_path / "domain.toml"
    domain.write_text('[[attributes]]\nname="sex"\nkind="labels"\nlabels=["Female","Male"]\n')
    call = ["attach", "again", "--data", str(town.data), "--domain", str(domain)]
    place = ["--redis-url", town.settings.redis_url, "--state", str(town.settings.state_dir)]
    assert main([*call, *place, "--limit", "1"]) == 1
    assert "--same-data-other-people" in capsys.readouterr().err
    assert main([*call, *place, "--limit", "1", "--same-data-other-people"]) == 0
    assert "else that person can lose the limit of each population" in capsys.readouterr().err


def test_nothing_is_unknown_of_weeks_that_were_sealed(tmp_path: Path, store_url: str) -> None:
    """The line of the first part has no digests of its own: those of its dataset say the same."""
    town = Growing.begin(tmp_path, store_url)
    town.append(3)
    other = write_people(tmp_path / "other.csv")
    assert not any("note:" in text for text in attach_elsewhere(town, other))
    with pytest.raises(ConfigError, match="the same file"):
        attach_elsewhere(town, town.data, population="third", domain=WEEKS)

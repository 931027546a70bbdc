"""The attack on true members: what comes out goes to private files, and nowhere else."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qserver.errors import ConfigError, InputError, NotFoundError, PrivateDataError
from qserver.models.network.bif import write_bif
from qserver.models.network.network import Network
from qserver.models.network.structure import structure_of_edges
from qserver.models.tracing.attack import Roc, TracingAttack, fitted
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.storage.store import Store
from tests.deployment import Deployment, write_people
from tests.models.structures import sized
from tests.worker.learn_models import learn
from worker.cli import main
from worker.owner.model_audit import TracingRequest, audit_model, write_private
from worker.private.registry import Registry, RegistryEntry
from worker.private.snapshot import read_snapshot

Out = pytest.CaptureFixture[str]
DOMAIN = domain_from_document(
    {"attributes": [{"name": n, "labels": ["no", "maybe", "yes"]} for n in ("a", "b", "c")]}
)
LABELS = ("no", "maybe", "yes")
# The network's labels come in another order than the domain's.
TURNED = ("yes", "no", "maybe")
SIZES = dict.fromkeys("abc", 3)
EDGES = [("a", "b"), ("a", "c")]


def write_records(path: Path, records: np.ndarray) -> None:
    lines = ["a,b,c", *(",".join(LABELS[v] for v in record) for record in records)]
    path.write_text("\n".join(lines) + "\n")


def model_of(records: np.ndarray) -> Network:
    """The network of the records, its labels turned."""
    turned = structure_of_edges(dict.fromkeys("abc", TURNED), EDGES)
    return fitted(turned, turned_codes(records))


def turned_codes(records: np.ndarray) -> np.ndarray:
    return np.array([TURNED.index(x) for x in LABELS])[records]


@pytest.fixture
def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 3, (40, 3)), rng.integers(0, 3, (61, 3))


@pytest.fixture
def registry(tmp_path: Path, records: tuple[np.ndarray, np.ndarray]) -> Registry:
    """A worker's folder with one dataset, without any store."""
    members, reference = records
    write_records(tmp_path / "data.csv", members)
    write_records(tmp_path / "reference.csv", reference)
    (tmp_path / "model.bif").write_text(write_bif(model_of(members)))
    (tmp_path / "state").mkdir(mode=0o700)
    found = Registry(tmp_path / "state")
    snapshot = read_snapshot(tmp_path / "data.csv", DOMAIN, key=found.key(), folder=found.seals)
    data, document = str(tmp_path / "data.csv"), domain_to_document(DOMAIN)
    entry = RegistryEntry("people", "town", "00ff", data, document, 1, snapshot.fingerprint)
    found.put(replace(entry, sealed=True), snapshot.seal)
    return found


def request(folder: Path, **change: object) -> TracingRequest:
    fields: dict[str, object] = {
        "name": "people",
        "model": folder / "model.bif",
        "reference": folder / "reference.csv",
        "out": folder / "report.json",
    }
    return TracingRequest(**(fields | change))  # type: ignore[arg-type]


def run(folder: Path, *more: object) -> int:
    """The command; its store is at an address where nothing answers."""
    fixed = ("--model", folder / "model.bif", "--reference", folder / "reference.csv")
    where = ("--state", folder / "state", "--redis-url", "unix:///nowhere/at/all")
    argv = ["audit-model", "people", *fixed, "--out", folder / "report.json", *where, *more]
    return main([str(a) for a in argv])


def test_the_report_holds_the_attack_on_the_members(
    tmp_path: Path, registry: Registry, records: tuple[np.ndarray, np.ndarray]
) -> None:
    members, reference = records
    audit_model(request(tmp_path, epsilon=2.0), registry=registry)
    document = json.loads((tmp_path / "report.json").read_text())
    plain = sized(SIZES, EDGES)
    attack = TracingAttack(fitted(plain, members), fitted(plain, reference[::2]))
    expected = Roc(attack.scores(members), attack.scores(reference[1::2])).auc
    assert document["private"] is True
    assert document["auc"]["attack"]["value"] == pytest.approx(expected.value, rel=1e-9)
    assert document["records"] == 40
    assert document["reference_records"] == 31
    assert document["cap"]["exponent"] == 4.0
    assert len(document["measured_effects"]) == len(document["effects"]) == 3 + 2


def test_both_files_are_closed_to_others_whatever_the_umask(
    tmp_path: Path, registry: Registry
) -> None:
    before = os.umask(0)
    try:
        audit_model(request(tmp_path, plot=tmp_path / "report.svg"), registry=registry)
    finally:
        os.umask(before)
    for name in ("report.json", "report.svg"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert "PRIVATE. " in (tmp_path / "report.svg").read_text()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_says_where_and_nothing_of_what(
    tmp_path: Path, registry: Registry, capsys: Out, as_json: bool
) -> None:
    """No digit of the outcome on the terminal, no log; a store that cannot be reached is not."""
    kept = {path for path in registry.folder.rglob("*") if path.is_file()}
    assert run(tmp_path, *(["--json"] if as_json else [])) == 0
    output = capsys.readouterr()
    assert output.err == ""
    path = str(tmp_path / "report.json")
    if as_json:
        assert json.loads(output.out) == {"private_files": [path]}
    else:
        assert output.out == f"Wrote {path}. PRIVATE: it tells about single people.\n"
    assert {p for p in registry.folder.rglob("*") if p.is_file()} == kept


def test_nothing_is_written_over(tmp_path: Path, registry: Registry, capsys: Out) -> None:
    (tmp_path / "report.json").write_text("mine")
    assert run(tmp_path) == 1
    assert "must be a new file" in capsys.readouterr().err
    with pytest.raises(Exception, match="new file in a folder"):
        write_private(tmp_path / "report.json", "x")
    assert (tmp_path / "report.json").read_text() == "mine"
    assert registry.entries().keys() == {"people"}


def test_a_changed_dataset_is_refused(tmp_path: Path, registry: Registry, capsys: Out) -> None:
    path = registry.seal_path(registry.entry("people"))
    text = bytearray(path.read_bytes())
    text[64] ^= 1
    path.write_bytes(bytes(text))
    assert run(tmp_path) == 1
    assert "is not what was attached" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()
    assert registry.log_path.exists() is False


@pytest.mark.parametrize(
    ("labels", "edges", "match"),
    [
        ({"d": LABELS}, [], "attributes of the dataset"),
        ({"a": ("no", "perhaps", "yes")}, [], "names of the attribute's values"),
    ],
)
def test_a_model_of_other_attributes_is_refused(
    tmp_path: Path,
    registry: Registry,
    capsys: Out,
    labels: dict[str, tuple[str, ...]],
    edges: list[tuple[str, str]],
    match: str,
) -> None:
    structure = structure_of_edges(labels, edges)
    model = fitted(structure, np.zeros((1, 1), dtype=int))
    (tmp_path / "model.bif").write_text(write_bif(model))
    assert run(tmp_path) == 1
    assert match in capsys.readouterr().err
    assert registry.entries().keys() == {"people"}


def test_a_reference_of_three_records_is_too_small(
    tmp_path: Path, registry: Registry, capsys: Out
) -> None:
    write_records(tmp_path / "reference.csv", np.zeros((3, 3), dtype=int))
    assert run(tmp_path) == 1
    assert "must each have four records" in capsys.readouterr().err
    assert registry.entries().keys() == {"people"}


def test_a_learnt_network_is_attacked_as_its_export_is(
    tmp_path: Path, store_url: str, capsys: Out
) -> None:
    """By id and by the BIF file that the server exports; figures as exact as BIF's digits."""
    at = Deployment.make(tmp_path, store_url, limit="20")
    learnt = learn(at, "network", {"network": {"edges": [["sex", "age"]]}}, 10)
    exported = at.service().models.export("people", learnt.id)
    (tmp_path / "model.bif").write_text(exported)
    write_people(tmp_path / "others.csv", [(20 + i % 7, "Female") for i in range(80)])
    where = ("--state", tmp_path, "--redis-url", store_url)
    documents = []
    for option, value in (("--model", tmp_path / "model.bif"), ("--model-id", learnt.id)):
        out = tmp_path / f"report{option}.json"
        rest = ("--reference", tmp_path / "others.csv", "--out", out)
        argv = ["audit-model", "people", option, value, *rest, *where]
        assert main([str(a) for a in argv]) == 0
        documents.append(json.loads(out.read_text()))
    first, second = documents
    assert first["private"] is second["private"] is True
    assert first["auc"]["attack"]["value"] > 0.55
    assert first["auc"]["attack"] == pytest.approx(second["auc"]["attack"], rel=1e-9)
    assert capsys.readouterr().err == ""


def test_a_model_that_is_no_network_or_not_there_is_refused(
    tmp_path: Path, store_url: str, capsys: Out
) -> None:
    at = Deployment.make(tmp_path, store_url, limit="20")
    table = learn(at, "marginals", {"marginals": [["sex"]]}, 1)
    write_people(tmp_path / "others.csv")
    registry, reader = at.registry, Store.open(at.settings)
    fields = {"reference": tmp_path / "others.csv", "out": tmp_path / "x.json"}
    with pytest.raises(InputError, match="be a network"):
        audit_model(request(tmp_path, model=table.id, **fields), registry=registry, reader=reader)
    with pytest.raises(NotFoundError):
        audit_model(request(tmp_path, model="town~0", **fields), registry=registry, reader=reader)
    with pytest.raises(ConfigError, match="BIF file"):
        audit_model(request(tmp_path, model=table.id, **fields), registry=registry)
    registry.put(replace(registry.entry("people"), snapshot="00ff"))
    with pytest.raises(PrivateDataError, match="another snapshot"):
        audit_model(request(tmp_path, model=table.id, **fields), registry=registry, reader=reader)
    assert not (tmp_path / "x.json").exists()
    assert capsys.readouterr().out == ""

"""Private files into codes: rules per attribute, nothing that a value can break."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from tests.sweeps import examples
from tests.worker.codes import codes_of as kept_codes
from tests.worker.private.reading import codes_in_order, snapshot_of
from worker.owner.domains.draft import infer_domain_document


def edges(*values: int | str) -> tuple[Fraction, ...]:
    return tuple(Fraction(v) for v in values)


def codes_of(path: Path, *attributes: Attribute) -> list[list[int]]:
    return codes_in_order(path, Domain(attributes), folder=path.parent)


def csv(tmp_path: Path, text: str, name: str = "rows.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_labels_become_codes_with_spaces_trimmed(tmp_path: Path) -> None:
    path = csv(tmp_path, "sex,other_column\n Male,1\nFemale ,2\n")
    assert codes_of(path, Attribute("sex", "labels", ("Female", "Male"))) == [[1, 0]]


def test_drop_takes_the_whole_record_out(tmp_path: Path) -> None:
    path = csv(tmp_path, "sex,age\nMale,20\nX,21\n,22\nFemale,23\n")
    sex = Attribute("sex", "labels", ("Female", "Male"))
    age = Attribute("age", "integer", edges=edges(*range(20, 31)))
    assert codes_of(path, sex, age) == [[1, 0], [0, 3]]


def test_other_counts_unknown_and_missing_values(tmp_path: Path) -> None:
    path = csv(tmp_path, "job\nclerk\n?\nastronaut\n\nclerk\n")
    job = Attribute(
        "job", "labels", ("clerk",), outside="other", missing="other", missing_markers=("?",)
    )
    # DuckDB takes the blank line of a one-column file for a missing value.
    assert codes_of(path, job) == [[0, 1, 1, 1, 0]]


def test_clamp_moves_numbers_to_the_outer_bins(tmp_path: Path) -> None:
    path = csv(tmp_path, "age,x\n-5,0\n17,0\n200,0\ninf,0\n-inf,0\n")
    age = Attribute("age", "integer", edges=edges(17, 20, 30), outside="clamp")
    x = Attribute("x", "labels", ("0",))
    assert codes_of(path, age, x)[0] == [0, 0, 1, 1, 0]


def test_a_bin_holds_its_lower_edge_and_not_its_upper(tmp_path: Path) -> None:
    path = csv(tmp_path, "v\n0\n0.1\n0.1999\n0.2\n0.3\n")
    v = Attribute("v", "real", edges=edges("0", "0.1", "0.2", "0.3"), outside="other")
    assert codes_of(path, v) == [[0, 1, 1, 2, 3]]


def test_unreadable_numbers_are_missing(tmp_path: Path) -> None:
    path = csv(tmp_path, "v,w\nabc,0\nnan,0\n1,0\n1e999,0\n")
    v = Attribute("v", "real", edges=edges(0, 2), outside="other", missing="other")
    w = Attribute("w", "labels", ("0",))
    assert codes_of(path, v, w)[0] == [1, 1, 0, 1]


def test_parquet_and_gzipped_csv_give_the_same_table(tmp_path: Path) -> None:
    text = "age,sex\n20,Male\n25,Female\n29,Male\n"
    plain = csv(tmp_path, text)
    zipped = tmp_path / "rows.csv.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    parquet = tmp_path / "rows.parquet"
    duckdb.sql(
        "SELECT * FROM (VALUES (20, 'Male'), (25, 'Female'), (29, 'Male')) t(age, sex)"
    ).write_parquet(str(parquet))
    domain = Domain(
        (
            Attribute("age", "integer", edges=edges(20, 25, 30)),
            Attribute("sex", "labels", ("Female", "Male")),
        )
    )
    files = (plain, zipped, parquet)
    prints = {snapshot_of(p, domain, folder=tmp_path).fingerprint for p in files}
    assert len(prints) == 1


def test_the_fingerprint_changes_with_content_domain_and_key(tmp_path: Path) -> None:
    sex = Domain((Attribute("sex", "labels", ("Female", "Male")),))
    longer = Domain((Attribute("sex", "labels", ("Female", "Male", "X")),))
    first = csv(tmp_path, "sex\nMale\nMale\n", "a.csv")
    second = csv(tmp_path, "sex\nMale\nFemale\n", "b.csv")
    found = {
        snapshot_of(first, sex, folder=tmp_path).fingerprint,
        snapshot_of(second, sex, folder=tmp_path).fingerprint,
        snapshot_of(first, longer, folder=tmp_path).fingerprint,
        snapshot_of(first, sex, folder=tmp_path, key=b"z" * 32).fingerprint,
    }
    assert len(found) == 4


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = csv(tmp_path, "sex\nMale\n")
    with pytest.raises(PrivateDataError, match="lacks age"):
        codes_of(path, Attribute("age", "integer", edges=edges(0, 1)))


@pytest.mark.parametrize("name", ["rows.txt", "rows"])
def test_an_unknown_ending_is_refused(tmp_path: Path, name: str) -> None:
    path = csv(tmp_path, "sex\nMale\n", name)
    with pytest.raises(PrivateDataError, match="must end in"):
        codes_of(path, Attribute("sex", "labels", ("Male",)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PrivateDataError, match="not a file"):
        codes_of(tmp_path / "none.csv", Attribute("sex", "labels", ("Male",)))


def test_quotes_in_labels_columns_and_paths_are_data(tmp_path: Path) -> None:
    folder = tmp_path / "o'clock"
    folder.mkdir()
    path = csv(folder, 'sex\n"it\'s"\n')
    assert codes_of(path, Attribute("sex", "labels", ("it's", "'); DROP TABLE x; --"))) == [[0]]


@pytest.mark.slow
@given(st.lists(st.text(max_size=12), min_size=1, max_size=20))
@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_value_can_make_the_conversion_fail(tmp_path: Path, values: list[str]) -> None:
    """Every text becomes a code inside the domain, whatever it is."""
    path = tmp_path / "rows.parquet"
    column = [v.encode("utf-8", "ignore").decode() for v in values]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (a VARCHAR, b VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(v, v) for v in column])
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    a = Attribute("a", "labels", ("x",), outside="other", missing="other")
    b = Attribute("b", "real", edges=edges(0, 1, 2), outside="clamp", missing="other")
    codes = kept_codes(snapshot_of(path, Domain((a, b)), folder=tmp_path))
    assert all(len(c) == len(values) for c in codes)
    sizes = (a.size, b.size)
    assert all(int(np.max(c)) < s for c, s in zip(codes, sizes, strict=True))


def test_an_inferred_domain_names_every_value(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b\nx,1\ny,1\n")
    document = infer_domain_document(path, folder=tmp_path)
    assert document == {
        "attributes": [
            {"name": "a", "kind": "labels", "labels": ["x", "y"]},
            {"name": "b", "kind": "labels", "labels": ["1"]},
        ]
    }

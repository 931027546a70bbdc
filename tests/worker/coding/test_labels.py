"""Labels by their hashes: the codes of a dictionary, whatever the texts."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import PrivateDataError
from qserver.query.domain import Attribute, Domain
from tests.sweeps import examples
from tests.worker.private.reading import codes_in_order
from worker.coding import coder
from worker.coding.coder import LabelCodes, hash_sql

MISSING, OUTSIDE = -1, -2
# As long as DuckDB keeps in place, one longer, and texts that differ at the end alone.
NAMES = ("a", "b", "abcdefghijkl", "abcdefghijklm", "abcdefghijkln", "Ä", "'; --")
ATTRIBUTE = Attribute("x", "labels", NAMES, missing_markers=("?", "n/a"))


@settings(max_examples=examples(60))
@given(
    st.lists(st.one_of(st.sampled_from([*NAMES, "?", "n/a", "", None, "A"]), st.text()), min_size=1)
)
def test_a_text_has_the_code_of_its_label(texts: list[str | None]) -> None:
    known = {name: i for i, name in enumerate(NAMES)} | {"": MISSING, "?": MISSING, "n/a": MISSING}
    with duckdb.connect(":memory:") as connection:
        found = LabelCodes(connection, ATTRIBUTE, missing=MISSING, outside=OUTSIDE)
        sql = f"SELECT {hash_sql('t')} AS h FROM (SELECT unnest($texts::VARCHAR[]) AS t)"
        hashes = connection.execute(sql, {"texts": texts}).fetchnumpy()["h"]
    assert found.of(hashes).tolist() == [known.get(t or "", OUTSIDE) for t in texts]


def test_labels_of_one_hash_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be counted as one. It is decided by the domain alone, which is public."""
    path = tmp_path / "rows.csv"
    path.write_text("x\na\n")
    domain = Domain((Attribute("x", "labels", ("a", "b")),))
    assert codes_in_order(path, domain, folder=tmp_path) == [[0]]
    monkeypatch.setattr(coder, "_HASH", "length")
    with pytest.raises(PrivateDataError, match="Two labels of x have the same hash"):
        codes_in_order(path, domain, folder=tmp_path)

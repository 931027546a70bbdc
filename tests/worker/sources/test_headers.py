"""Headers of CSV files as programs write them: read, or refused with the line and what to do."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.errors import ConfigError, PrivateDataError
from qserver.query.domain_file import domain_from_document
from qserver.query.domain_loading import load_domain
from tests.worker.private.reading import codes_in_order, snapshot_of
from worker.sources.address import Address
from worker.sources.source import one_statement

CASES = Path(__file__).parents[2] / "data" / "files"
TWO = load_domain(CASES / "two.json")

READ: dict[str, bytes] = {
    "as usual": b"a,n\nx,1\ny,2\n",
    "a blank line first": b"\na,n\nx,1\ny,2\n",
    "blank lines of all kinds": b"  \r\n\r\n,,\r\na,n\r\nx,1\r\ny,2\r\n",
    "a mark and a blank line": b"\xef\xbb\xbf\na,n\nx,1\ny,2\n",
    "blank lines below": b"a,n\n\nx,1\n\ny,2\n\n",
    "old line ends": b"a,n\rx,1\ry,2\r",
    "columns without a name": b"a,n,,\nx,1,,\ny,2,7,\n",
    "an unwanted column twice": b"b,a,b,n\n1,x,2,1\n3,y,4,2\n",
    "an unwanted name of two lines": b'"b\nc",a,n\n1,x,1\n3,y,2\n',
    "separators in quotes": b'id;"p, q, t, u";a;n\n1;u;x;1\n2;u;y;2\n',
    "quoted separators of the same kind": b'"p;q",a,n\n1,x,1\n2,y,2\n',
    "one row after a blank one at the end": b"a,n\nx,1\ny,2\n\n\n",
    "names with blanks": b' "a" , n \nx,1\ny,2\n',
}


@pytest.mark.parametrize("name", READ)
def test_two_records_are_read_of_any_header(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(READ[name])
    assert codes_in_order(path, TWO, folder=tmp_path) == [[0, 1], [1, 2]]


def test_a_later_file_of_a_folder_may_begin_with_a_blank_line(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "1.csv").write_bytes(READ["as usual"])
    (folder / "2.csv").write_bytes(READ["a blank line first"])
    assert codes_in_order(folder, TWO, folder=tmp_path) == [[0, 1, 0, 1], [1, 2, 1, 2]]


def test_a_later_file_with_a_comment_is_refused_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "1.csv").write_bytes(READ["as usual"])
    (folder / "2.csv").write_bytes(b"\n# of May\na,n\nx,1\n")
    told = r"file 2 of 2 lacks column a.* It has # of May.*2\.csv.* is line 2\. Delete comment"
    with pytest.raises(PrivateDataError, match=told):
        codes_in_order(folder, TWO, folder=tmp_path)


REFUSED: dict[str, tuple[bytes, str]] = {
    "two kinds of line ends": (
        b"a,n\nx,1\r\ny,2\nx,3\n",
        "line 2 otherwise than those before.*sed",
    ),
    "another end below": (b"a,n\r\nx,1\r\ny,2\n", "line 3 otherwise than those before"),
    "an old end below": (b"a,n\nx,1\ry,2\n", "line 2 otherwise than those before"),
    "a comment first": (
        b"# made in May\na,n\nx,1\n",
        "lacks a, n. It has # made in May. .* is line 1. Delete comment lines",
    ),
    "a comment below": (b"a,n\nx,1\n# no more\n", "at line 3: it has another number of columns"),
    "another name": (b"\n\nb,n\nx,1\n", "lacks a. It has b, n. .* is line 3: name the column"),
    "a wanted column twice": (b"a,n,a\nx,1,y\n", "more than one column a. .* is line 1"),
    "no header": (b"\n \n,,\n", "no header line"),
    "UTF-16 with a mark": ("a,n\nx,1\n".encode("utf-16"), "line 1: .*UTF-16.*-f utf-16 "),
    "UTF-16": ("a,n\nx,1\n".encode("utf-16le"), "line 1: .*UTF-16.*-f utf-16le"),
    "UTF-16 of the other order": ("a,n\nx,1\n".encode("utf-16be"), "UTF-16.*-f utf-16be"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    """No advice names --query, which files do not take."""
    text, told = REFUSED[name]
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    with pytest.raises(PrivateDataError, match=told) as refused:
        codes_in_order(path, TWO, folder=tmp_path)
    assert "--query" not in str(refused.value)


def test_a_wanted_column_of_parquet_that_lacks_is_told_with_those_that_are_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"b": ["x"], "n": [1]}), path)
    with pytest.raises(
        PrivateDataError, match=r"lacks a\. It has b, n\. Write the file"
    ) as refused:
        codes_in_order(path, TWO, folder=tmp_path)
    assert "--query" not in str(refused.value)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)])
def test_bytes_are_texts(tmp_path: Path, kind: pa.DataType) -> None:
    domain = domain_from_document({"attributes": [{"name": "a", "labels": ["é", "ab"]}]})
    path = tmp_path / "rows.parquet"
    column = pa.array([b"ab", "é".encode()], kind)
    pq.write_table(pa.table({"a": column}), path)
    assert codes_in_order(path, domain, folder=tmp_path) == [[1, 0]]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("rows", pa.table({"a": column}))
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
    address = Address(f"duckdb:///{tmp_path}/t.duckdb", table="t")
    assert codes_in_order(address, domain, folder=tmp_path) == [[1, 0]]
    pq.write_table(pa.table({"a": pa.array([b"\xff\xfe"], pa.binary())}), path)
    with pytest.raises(PrivateDataError, match="no UTF-8"):
        codes_in_order(path, domain, folder=tmp_path)


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("query", ["SELECT 1; SELECT 2", "SELECT a FROM t; --\n;x", "-- a", ";"])
def test_two_statements_are_one_line(tmp_path: Path, kind: str, query: str) -> None:
    if kind == "duckdb":
        duckdb.connect(str(tmp_path / "t")).close()
    else:
        (tmp_path / "t").write_bytes(b"")
    with pytest.raises(ConfigError, match="`query` must be one SELECT"):
        snapshot_of(Address(f"{kind}:///{tmp_path}/t", query=query), TWO, folder=tmp_path)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT 1;", "SELECT 1"),
        (" SELECT ';' AS \"a;b\" -- x;\n", "SELECT ';' AS \"a;b\" -- x;"),
        ("SELECT 1 /* ; */;; -- done\n", "SELECT 1 /* ; */"),
        ("SELECT E'\\';', $x$;$x$", "SELECT E'\\';', $x$;$x$"),
    ],
)
def test_a_semicolon_in_quotes_or_comments_ends_no_statement(query: str, found: str) -> None:
    assert one_statement(query) == found

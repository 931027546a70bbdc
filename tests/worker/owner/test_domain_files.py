"""`qserver-worker domain`: drafts that tell nothing of the data, checks that tell all."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import tomllib
from pathlib import Path

import duckdb
import pytest

from qserver.query.domain_file import domain_from_document
from qserver.query.domain_keys import domain_schema
from worker.cli import main
from worker.owner.domains.check import Seen, kind_of_type
from worker.owner.domains.draft import attribute_name, draft_text
from worker.private.registry import Registry
from worker.sources.source import Column

HEADER = "patient_id,Age (years),2nd visit date,Größe/cm,smoker,ward\n"
ROWS = "1,33,2024-03-01,170.5,true,A\n2,44,2023-12-01,181,false,B\n"
Out = pytest.CaptureFixture[str]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(HEADER + ROWS, encoding="utf-8")
    return path


def filled(text: str) -> dict[str, object]:
    """A draft with all of its suggestions taken over."""
    return tomllib.loads(
        re.sub(r"^# (labels|range|width|first|count) =", r"\1 =", text, flags=re.MULTILINE)
    )


def test_a_draft_depends_on_no_record(visits: Path, capsys: Out) -> None:
    assert main(["domain", "init", "--data", str(visits)]) == 0
    first = capsys.readouterr().out
    visits.write_text(HEADER + "x,y,z,other,things,here\n" * 3, encoding="utf-8")
    assert main(["domain", "init", "--data", str(visits)]) == 0
    assert capsys.readouterr().out == first
    assert "SEEN" not in first


def test_a_draft_of_typed_columns_depends_on_no_record(tmp_path: Path, capsys: Out) -> None:
    texts = []
    for row in (
        "(1, 0.5, DATE '2024-01-01', true, 'x')",
        "(9, 1.5, DATE '1999-01-01', false, 'y')",
    ):
        path = tmp_path / "t.parquet"
        duckdb.sql(f"SELECT * FROM (VALUES {row}) AS t(a, b, c, d, e)").write_parquet(str(path))
        assert main(["domain", "init", "--source", str(path)]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    kinds = [item["kind"] for item in tomllib.loads(texts[0])["attributes"]]
    assert kinds == ["integer", "real", "date", "labels", "labels"]


def test_the_command_in_a_draft_is_one_for_a_shell(tmp_path: Path, capsys: Out) -> None:
    """As it stands there, but for the name of the draft."""
    path = tmp_path / "visits of 2024.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE TABLE "my visits" (age INTEGER)')
    source = ["--source", f"duckdb:///{path}", "--table", '"my visits"']
    assert main(["domain", "init", *source]) == 0
    text = capsys.readouterr().out
    (line,) = [x for x in text.splitlines() if "domain check FILE" in x]
    (tmp_path / "my.toml").write_text(text + "range = [0, 99]\nwidth = 10\n")
    words = [str(tmp_path / "my.toml") if x == "FILE" else x for x in shlex.split(line)[4:]]
    assert main(["domain", "check", *words]) == 0
    assert "all found among 1 columns" in capsys.readouterr().out


def test_a_draft_names_any_column_and_leaves_identifiers_out(visits: Path, capsys: Out) -> None:
    assert main(["domain", "init", "--data", str(visits)]) == 0
    text = capsys.readouterr().out
    found = tomllib.loads(text)["attributes"]
    assert [(item["name"], item.get("column")) for item in found] == [
        ("Age_years", "Age (years)"),
        ("_2nd_visit_date", "2nd visit date"),
        ("Grosse_cm", "Größe/cm"),
        ("smoker", None),
        ("ward", None),
    ]
    assert "Left out: column patient_id" in text


def test_values_stand_in_comments_and_only_where_asked_for(
    visits: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "d.toml"
    asked = ["domain", "init", "--data", str(visits), "--show-values", "-o", str(out)]
    assert main(asked) == 0
    assert "shows values of the data" in capsys.readouterr().err
    text = out.read_text(encoding="utf-8")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    said = [line for line in text.splitlines() if not line.startswith("#")]
    assert not [line for line in said if "33" in line or "170" in line or "2023" in line]
    assert "PRIVATE" in text
    assert '# labels = ["A", "B"]  # SEEN' in text
    domain = domain_from_document(filled(text))
    age, day, size, smoker, ward = domain.attributes
    assert (age.kind, day.kind, size.kind) == ("integer", "date", "real")
    assert (day.value_names[0], day.value_names[-2]) == ("2023-12", "2024-03")
    assert (smoker.codes, ward.labels) == (("false", "true"), ("A", "B"))
    assert main(asked) == 1
    assert "must be a new file" in capsys.readouterr().err


def test_texts_for_missing_values_do_not_hide_numbers(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "t.csv"
    path.write_text("beak,sex\n39.1,MALE\nNA,NA\n40.5,FEMALE\n")
    assert main(["domain", "init", "--data", str(path), "--show-values"]) == 0
    text = capsys.readouterr().out
    assert [item["kind"] for item in tomllib.loads(text)["attributes"]] == ["real", "labels"]
    assert '# labels = ["FEMALE", "MALE"]  # SEEN' in text
    assert text.count('# missing_markers = ["NA"]  # SEEN') == 2


@pytest.mark.parametrize(
    ("low", "high", "whole"),
    [
        (17, 90, True),
        (0, 3, True),
        (0, 99_999, True),
        (-0.5, 0.25, False),
        (1e-9, 2e-9, False),
        (-1e15, 1e15, False),
        (5, 5, True),
        (5.5, 5.5, False),
    ],
)
def test_suggested_bins_hold_what_was_seen_and_are_read(
    low: float, high: float, *, whole: bool
) -> None:
    texts = {str(i) for i in range(41)}
    seen = Seen(texts, low, high, whole=whole)
    text = draft_text([Column("a")], {"a": seen}, name="x", source="--source x")
    (attribute,) = domain_from_document(filled(text)).attributes
    assert attribute.kind == ("integer" if whole else "real")
    assert 1 <= attribute.n_regular <= 25
    inside = [max(low, -1e11), min(high, 1e11)]
    assert attribute.edges[0] <= inside[0]
    assert attribute.edges[-1] >= inside[1]


def test_check_of_a_draft_names_what_is_to_be_filled_in(
    visits: Path, tmp_path: Path, capsys: Out
) -> None:
    out = tmp_path / "d.toml"
    assert main(["domain", "init", "--data", str(visits), "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["domain", "check", str(out)]) == 1
    said = capsys.readouterr().out
    assert "`attributes[0].range` must be given for kind `integer`" in said
    assert "`attributes[1].first` must be given for kind `date`" in said
    assert "`attributes[4].labels` must be given for kind `labels`" in said
    assert said.splitlines()[-1].endswith("Attach would refuse this file.")


def test_check_finds_missing_columns_and_types_that_do_not_fit(tmp_path: Path, capsys: Out) -> None:
    data, domain = tmp_path / "t.parquet", tmp_path / "d.toml"
    row = "(DATE '2024-01-01', true, 3, 'x', 1)"
    columns = "day, smoker, stage, Region, spare"
    duckdb.sql(f"SELECT * FROM (VALUES {row}) AS t({columns})").write_parquet(str(data))
    domain.write_text(
        '[[attributes]]\nname = "day"\nkind = "integer"\nrange = [0, 9]\n'
        '[[attributes]]\nname = "smoker"\nkind = "date"\nevery = "day"\nfirst = "2024-01-01"\n'
        'count = 3\n[[attributes]]\nname = "stage"\nlabels = ["early", "late"]\n'
        '[[attributes]]\nname = "area"\ncolumn = "region"\nlabels = ["x"]\n'
    )
    assert main(["domain", "check", str(domain), "--data", str(data), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(fault["line"], fault["place"]) for fault in found["faults"]] == [
        (3, "attributes[0].kind"),
        (7, "attributes[1].kind"),
        (11, "attributes[2].kind"),
        (16, "attributes[3].column"),
    ]
    texts = [fault["text"] for fault in found["faults"]]
    assert "holds dates" in texts[0]
    assert "Nearest: labels = [false, true]" in texts[1]
    assert "codes = [1, 2, ...]" in texts[2]
    assert "Did you mean 'Region'?" in texts[3]
    assert found["notes"] == ["not read: Region, spare"]


def test_check_of_a_right_file_says_so_with_its_levels(visits: Path, capsys: Out) -> None:
    domain = visits.with_name("d.json")
    item = {"name": "ward", "labels": ["A", "B"], "levels": {"house": {"old": ["A", "B"]}}}
    domain.write_text(json.dumps({"attributes": [item]}))
    assert main(["domain", "check", str(domain), "--data", str(visits)]) == 0
    said = capsys.readouterr().out
    assert "ok: 1 attributes, 1 level, 2 cells; all found among 6 columns" in said


def test_the_schema_is_printed(capsys: Out) -> None:
    assert main(["domain", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == domain_schema()


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("age", "age"),
        ("Größe (cm)", "Grosse_cm"),
        ("2nd", "_2nd"),
        ("身高", "column"),
        ("a.b/c", "a_b_c"),
        ("Été", "Ete"),
        ("AGE", "AGE"),
        ("  ", "column"),
        ("12", "column_12"),
        ("x" * 80, "x" * 56),
    ],
)
def test_names_need_no_quotes(column: str, name: str) -> None:
    assert attribute_name(column, []) == name
    assert attribute_name(column, [name.lower()]) == f"{name}_2"


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        (("BIGINT", "int64", "uint8", "INTEGER", "HUGEINT", "smallint", "bigserial"), "integer"),
        (
            ("double", "DOUBLE PRECISION", "numeric(4,2)", "decimal128(9, 2)", "float", "real"),
            "real",
        ),
        (("DATE", "timestamp[us, tz=UTC]", "date32[day]", "TIMESTAMP WITH TIME ZONE"), "date"),
        (("bool", "BOOLEAN"), "boolean"),
        (("VARCHAR", "string", "text", "large_string", "interval", "point"), "labels"),
        (("",), ""),
    ],
)
def test_types_of_all_sources_suggest_kinds(types: tuple[str, ...], kind: str) -> None:
    assert {kind_of_type(Column("a", type_)) for type_ in types} == {kind}


def test_a_draft_takes_exact_numbers_and_leaves_out_what_holds_no_single_value() -> None:
    """Types as PostgreSQL, DuckDB, Arrow and Spark call them."""
    types = {"dose": "numeric", "x": "decimal128(6, 2)", "tags": "list<item: int32>"}
    types |= {"more": "integer[]", "doc": "json", "who": "uuid", "m": "MAP(VARCHAR, INTEGER)"}
    types |= {"s": "struct<a:int>", "map_no": "int64"}
    columns = [*(Column(name, kind) for name, kind in types.items()), Column("b", is_twice=True)]
    text = draft_text(columns, {}, name="x", source="--source x")
    found = {item["name"]: item["kind"] for item in tomllib.loads(text)["attributes"]}
    assert found == {"dose": "real", "x": "real", "map_no": "integer"}
    left_out = [line.split()[4].rstrip(",") for line in text.splitlines() if "Left out" in line]
    assert left_out == ["tags", "more", "doc", "who", "m", "s", "b"]


def test_the_next_command_runs_as_it_is_printed(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With names and a query that a shell would take apart; it tells what is to be filled in."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("my visits.duckdb") as connection:
        connection.execute("CREATE TABLE t (age INTEGER, note VARCHAR)")
    query = 'SELECT age, -- years\n  note AS "it\'s" FROM t'
    source = ["--source", "duckdb:///my visits.duckdb", "--query", query]
    assert main(["domain", "init", *source, "-o", "my draft.toml"]) == 0
    words = shlex.split(capsys.readouterr().out.partition("then: ")[2])
    assert words[:1] == ["qserver-worker"]
    assert main(words[1:]) == 1
    assert "my draft.toml:" in capsys.readouterr().out
    # The comment in the draft is one line, for bash.
    (line,) = [x for x in Path("my draft.toml").read_text().splitlines() if "domain check" in x]
    script = f"qserver-worker() {{ printf '%s\\0' \"$@\"; }}\n{line.lstrip('# ')}"
    said = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    assert said.stdout.split("\0")[:-1] == words[1:]


def test_inferred_domains_name_columns_that_are_no_names(tmp_path: Path, store_url: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("in/out of bed,0,in_out_of_bed,native-country\nin,1,a,b\nout,2,a,b\n")
    call = ["attach", "beds", "--data", str(path), "--infer-domain", "--limit", "1"]
    call += ["--records-per-person", "1", "--state", str(tmp_path / "s"), "--redis-url", store_url]
    assert main(call) == 0
    items = Registry(tmp_path / "s").entry("beds").domain["attributes"]
    assert [(item["name"], item.get("column")) for item in items] == [  # type: ignore[attr-defined]
        ("in_out_of_bed_2", "in/out of bed"),
        ("column_0", "0"),
        ("in_out_of_bed", None),
        ("native-country", None),
    ]

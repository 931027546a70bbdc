"""Domain files: JSON and TOML to a domain and back, and what is refused on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import DomainError
from qserver.query.domain import Attribute, Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_loading import load_domain
from qserver.query.sealed_periods import sealed_domain

JSON_TEXT = """{"attributes": [
  {"name": "age", "kind": "integer", "range": [17, 90], "outside": "clamp", "missing": "other"},
  {"name": "job", "labels": ["clerk", "smith"], "outside": "other", "missing_markers": ["?"]},
  {"name": "pay", "kind": "real", "edges": [0, 0.1, "1/3", 12.5], "other": "none"}
]}"""
TOML_TEXT = """
[[attributes]]
name = "age"
kind = "integer"
range = [17, 90]
outside = "clamp"
missing = "other"

[[attributes]]
name = "job"
labels = ["clerk", "smith"]
outside = "other"
missing_markers = ["?"]

[[attributes]]
name = "pay"
kind = "real"
edges = [0, 0.1, "1/3", 12.5]
other = "none"
"""

texts = st.text(min_size=1, max_size=5)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.sampled_from(["labels", "integer", "real"]))
    outside = draw(st.sampled_from(["drop", "other"] + ["clamp"] * (kind != "labels")))
    shared: dict[str, Any] = {"name": name, "kind": kind, "outside": outside}
    shared["missing"] = draw(st.sampled_from(["drop", "other"]))
    shared["other"] = "o" + draw(texts)
    shared["missing_markers"] = tuple("m" + m for m in draw(st.lists(texts, max_size=2)))
    if kind == "labels":
        found = draw(st.lists(texts, min_size=1, max_size=5, unique=True))
        return Attribute(labels=tuple("l" + x for x in found), **shared)
    largest = 1 if kind == "integer" else 10**9
    numbers = st.fractions(-(10**12), 10**12, max_denominator=largest)
    edges = draw(st.lists(numbers, min_size=2, max_size=6, unique=True))
    return Attribute(edges=tuple(sorted(edges)), **shared)


def toml(value: object) -> str:
    """JSON's text of it, which is TOML's too but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


domains = st.lists(names, min_size=1, max_size=4, unique=True).flatmap(
    lambda found: st.tuples(*(attributes(n) for n in found)).map(Domain)
)


@pytest.mark.slow
@given(domains)
def test_document_comes_back_equal_through_json(domain: Domain) -> None:
    document = json.loads(json.dumps(domain_to_document(domain)))
    assert domain_from_document(document) == domain


@pytest.mark.slow
@given(domains)
def test_toml_and_json_files_of_one_document_give_equal_domains(
    tmp_path_factory: pytest.TempPathFactory, domain: Domain
) -> None:
    folder = tmp_path_factory.mktemp("domain")
    document = domain_to_document(domain)
    lines = []
    for item in document["attributes"]:  # type: ignore[attr-defined]
        lines.append("[[attributes]]")
        lines += [f"{key} = {toml(value)}" for key, value in item.items()]
    (folder / "d.toml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "d.json").write_text(json.dumps(document), encoding="utf-8")
    assert load_domain(folder / "d.toml") == load_domain(folder / "d.json") == domain


def test_toml_and_json_read_numbers_as_exact_decimals(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(JSON_TEXT)
    (tmp_path / "d.toml").write_text(TOML_TEXT)
    domain = load_domain(tmp_path / "d.json")
    assert domain == load_domain(tmp_path / "d.toml")
    age, job, pay = domain.attributes
    assert (age.n_regular, age.edges[-1], age.is_total) == (74, 91, True)
    assert (job.kind, job.missing, job.size) == ("labels", "other", 3)
    assert pay.edges == (0, Fraction(1, 10), Fraction(1, 3), Fraction(25, 2))
    assert domain_from_document(domain_to_document(domain)) == domain


@pytest.mark.parametrize(
    ("item", "edges"),
    [
        ({"kind": "integer", "range": [0, 4]}, [0, 1, 2, 3, 4, 5]),
        ({"kind": "integer", "range": [3, 3]}, [3, 4]),
        ({"kind": "integer", "range": [0, 9], "width": 5}, [0, 5, 10]),
        ({"kind": "real", "range": [0, 1], "width": "0.5"}, [0, Fraction(1, 2), 1]),
        ({"kind": "real", "range": ["-1/3", "1/3"], "width": "1/3"}, ["-1/3", 0, "1/3"]),
    ],
)
def test_range_makes_equal_bins(item: Mapping[str, object], edges: list[Any]) -> None:
    (attribute,) = domain_from_document({"attributes": [{"name": "a", **item}]}).attributes
    assert attribute.edges == tuple(map(Fraction, edges))


INTEGER = {"name": "a", "kind": "integer"}
LABELS = {"name": "a", "labels": ["x"]}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "`attributes[0]` must be an object, got 3"),
        ({1: 2}, "`attributes[0]` must have texts as keys"),
        ({**LABELS, "colour": 1}, "`attributes[0].colour` must be one of the keys"),
        ({"labels": ["x"]}, "`attributes[0].name` must be 1 to 64"),
        ({"name": "a"}, "`attributes[0].kind` must be one of"),
        ({**LABELS, "labels": "xy"}, "`attributes[0].labels` must be a list of texts, whole"),
        ({**LABELS, "labels": ["x", None]}, "`attributes[0].labels[1]` must be a non-empty"),
        ({**LABELS, "outside": {}}, "`attributes[0].outside` must be one of"),
        ({**LABELS, "other": ""}, "`attributes[0].other` must be a non-empty text"),
        ({**LABELS, "missing_markers": "?"}, "`attributes[0].missing_markers` must be a list"),
        ({**LABELS, "width": 2}, "`attributes[0].width` must be absent for kind `labels`. It is"),
        ({**LABELS, "range": [1, 2]}, "`attributes[0].range` must be absent for kind `labels`"),
        ({**INTEGER, "edges": [0, 1], "width": 2}, "`attributes[0].width` must be absent where"),
        ({**INTEGER, "edges": {}}, "`attributes[0].edges` must be a list of increasing numbers"),
        ({**INTEGER, "edges": [0, True]}, "`attributes[0].edges[1]` must be a finite number"),
        ({**INTEGER, "edges": [0, 10**5000]}, "`attributes[0].edges[1]` must be at most"),
        ({**INTEGER, "edges": [0, "1_0"]}, "`attributes[0].edges[1]` must be a finite number"),
        ({**INTEGER, "edges": [0, 1], "range": [0, 1]}, "`attributes[0].edges` must be absent"),
        ({**INTEGER, "range": [0]}, "`attributes[0].range` must be a list of two numbers"),
        ({**INTEGER, "range": [0, "x"]}, "`attributes[0].range[1]` must be a finite number"),
        ({**INTEGER, "range": [5, 4]}, "`attributes[0].range` must have low <= high"),
        (
            {"name": "a", "kind": "real", "range": [5, 5]},
            "`attributes[0].range` must have low < high",
        ),
        ({**INTEGER, "range": [0, 9], "width": 0}, "`attributes[0].width` must be > 0, got '0'"),
        ({**INTEGER, "range": [0, 9], "width": -1}, "`attributes[0].width` must be > 0"),
        ({**INTEGER, "range": [0, 9], "width": "1/2"}, "`attributes[0].edges` must be whole"),
        ({**INTEGER, "range": [0, 1 << 20]}, "`attributes[0].width` must give at most 1,048,576"),
        ({**INTEGER, "range": [0, 10**12], "width": 10**12 + 1}, "`attributes[0].width` must be"),
        ({**INTEGER, "range": [10**12, 10**12]}, "`attributes[0].edges` must be at most"),
        (
            {"name": "a", "kind": "real", "range": ["1/999999937", "1000000000/999999937"]}
            | {"width": "1/999999937"},
            "`attributes[0].width` must give at most",
        ),
        (
            {"name": "a", "kind": "real", "range": ["1/999999937", "999999938/999999937"]}
            | {"width": "0.001"},
            "`attributes[0].edges` must have denominators",
        ),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "",
)
def test_every_wrong_attribute_is_refused_by_its_place(item: object, message: str) -> None:
    with pytest.raises(DomainError) as caught:
        domain_from_document({"attributes": [item]})
    assert str(caught.value).startswith(message)


def test_width_that_does_not_divide_the_range_is_refused_with_a_range_that_fits() -> None:
    item = {**INTEGER, "range": [0, 10], "width": 5}
    with pytest.raises(DomainError, match=r"A range up to 14 would fit") as caught:
        domain_from_document({"attributes": [item]})
    assert caught.value.name == "attributes[0].width"
    mended = domain_from_document({"attributes": [{**item, "range": [0, 14]}]})
    assert mended.attributes[0].n_regular == 3


@pytest.mark.parametrize("document", [None, [], {}, {"Attributes": []}, "attributes"])
def test_document_that_is_no_domain_is_refused(document: object) -> None:
    with pytest.raises(DomainError, match=r"`domain` must be an object with the key `attributes`"):
        domain_from_document(document)


def test_a_document_has_no_other_key_but_that_of_its_schema() -> None:
    assert domain_from_document({"attributes": [LABELS], "$schema": "x"}).names == ("a",)
    with pytest.raises(DomainError, match=r"`title` must be absent: a domain has `attributes`"):
        domain_from_document({"attributes": [LABELS], "title": "x"})


@pytest.mark.parametrize("items", [{}, "x", None, 3])
def test_attributes_that_are_no_list_are_refused(items: object) -> None:
    with pytest.raises(DomainError, match=r"`attributes` must be a list of attributes"):
        domain_from_document({"attributes": items})


def numbers_file(number: str) -> str:
    return '{"attributes": [{"name": "a", "kind": "real", "edges": [0, ' + number + "]}]}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.json", b"{", "be well-formed JSON"),
        ("d.toml", b"= 1", "be well-formed TOML"),
        ("d.json", b"[" * 100_000, "be well-formed JSON"),
        ("d.toml", b"a = " + b"[" * 100_000, "be well-formed TOML"),
        ("d.json", b"\xff\xfe", "be a readable UTF-8 file"),
        ("d.json", b"\xef\xbb\xbf{}", "be well-formed JSON"),
        ("d.yaml", b"{}", "end in .json or .toml"),
        ("d.json", numbers_file("1" * 5000).encode(), "be well-formed JSON"),
        ("d.json", numbers_file("1e99999999999999999999").encode(), "be well-formed JSON"),
        ("d.toml", b"a = " + b"1" * 5000, "be well-formed TOML"),
        ("d.json", numbers_file("NaN").encode(), "be a finite number"),
        ("d.json", numbers_file("Infinity").encode(), "be a finite number"),
        ("d.json", numbers_file("1e400").encode(), "be a finite number"),
        ("d.json", numbers_file("0." + "3" * 10**6).encode(), "be a finite number"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else "",
)
def test_file_that_cannot_be_read_is_refused_with_the_reason(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DomainError, match=r"^`.*` must ") as caught:
        load_domain(path)
    assert caught.value.condition.startswith(message)


def test_file_that_is_absent_a_folder_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "none.json", tmp_path, Path("a\0b.json")):
        with pytest.raises(DomainError, match="be a readable UTF-8 file"):
            load_domain(path)
    (tmp_path / "d.json").write_text(JSON_TEXT)
    monkeypatch.setattr("qserver.query.domain_loading.MAX_BYTES", 10)
    with pytest.raises(DomainError, match="be at most 0 MiB"):
        load_domain(tmp_path / "d.json")


def test_description_and_licence_are_kept_and_change_no_question() -> None:
    plain = {"attributes": [{"name": "sex", "labels": ["F", "M"]}]}
    about = {**plain, "description": "People of a town.", "licence": "CC BY 4.0"}
    found = domain_from_document(about)
    assert (found.description, found.licence) == ("People of a town.", "CC BY 4.0")
    assert found == domain_from_document(plain)
    document = domain_to_document(found)
    assert (document["description"], document["licence"]) == ("People of a town.", "CC BY 4.0")
    assert set(domain_to_document(domain_from_document(plain))) == {"attributes"}


def test_the_description_of_an_attribute_is_kept_and_changes_no_question() -> None:
    week = {"name": "week", "kind": "period", "every": "week", "first": "2024-W01", "count": 9}
    plain = domain_from_document({"attributes": [week]})
    found = domain_from_document({"attributes": [{**week, "description": "Week of arrival."}]})
    assert found == plain
    again = domain_from_document(domain_to_document(found))
    assert again.attributes[0].description == "Week of arrival."
    assert "description" not in str(domain_to_document(plain))
    # Equal domains do not take each other's words from a cache.
    sealed = [sealed_domain(domain, "week", 3) for domain in (plain, found, plain)]
    assert [d.attributes[0].description for d in sealed] == ["", "Week of arrival.", ""]
    with pytest.raises(
        DomainError, match=r"`attributes\[0\]\.description` must be a text of at most"
    ):
        domain_from_document({"attributes": [{**week, "description": "two\nlines"}]})


@pytest.mark.parametrize("value", [50, 2.5, "2.5", "1/3"])
def test_the_length_of_counts_is_kept_exactly_and_changes_no_question(value: object) -> None:
    plain = {"attributes": [{"name": "sex", "labels": ["F", "M"]}]}
    found = domain_from_document({**plain, "within": value})
    assert found.within == Fraction(str(value))
    assert found == domain_from_document(plain)
    assert domain_from_document(domain_to_document(found)).within == found.within


def test_equal_domains_keep_what_each_says_while_periods_are_sealed() -> None:
    week = {"name": "week", "kind": "period", "every": "week", "first": "2024-W01", "count": 9}
    plain = domain_from_document({"attributes": [week]})
    said = domain_from_document({"attributes": [week], "within": 7, "licence": "CC BY 4.0"})
    assert said == plain
    sealed = [sealed_domain(domain, "week", 3) for domain in (plain, said, plain)]
    assert [(d.within, d.licence) for d in sealed] == [(None, ""), (7, "CC BY 4.0"), (None, "")]


@pytest.mark.parametrize("value", [0, -1, "x", True, None, [], 1e13])
def test_a_length_of_counts_that_is_none_is_refused(value: object) -> None:
    plain = {"attributes": [{"name": "sex", "labels": ["F", "M"]}]}
    with pytest.raises(DomainError, match="`within` must"):
        domain_from_document({**plain, "within": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("description", "x" * 1001), ("licence", "x" * 201), ("description", 7), ("licence", "a\nb")],
)
def test_text_about_the_data_is_short_and_on_one_line(name: str, value: object) -> None:
    plain = {"attributes": [{"name": "sex", "labels": ["F", "M"]}]}
    with pytest.raises(DomainError, match=f"`{name}` must be a text of at most"):
        domain_from_document({**plain, name: value})

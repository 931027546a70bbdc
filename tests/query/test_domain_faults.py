"""Every fault of a domain file at once, with its line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import DomainError
from qserver.query.domain_file import domain_from_document
from qserver.query.domain_loading import (
    Fault,
    check_file,
    faults_of,
    json_lines,
    line_of,
    load_domain,
    load_new_domain,
    place_text,
    toml_lines,
)
from tests.query.domain_documents import BAD_IN_SHAPE, BAD_TOGETHER, GOOD
from tests.sweeps import examples

BAD_TOML = """\
title = "x"

[[attributes]]
name = "1age"
kind = "integr"
range = [0, 99]
width = 7
outside = "klamp"

[[attributes]] # a comment = "with a key"
name = "sex"
lables = ["F", "M", "F"]
missing = "keep"

[[attributes]]
name = "sex"
labels = [
  "a",
  1.5,
]

[[attributes]]
name = "d"
kind = "date"
every = "week"
first = "2024-03"
count = 0

[[attributes]]
name = "e"
kind = "real"
edges = [0, 2,
   1]
colour = '''
range = 3'''

[[attributes]]
name = "z"
[attributes.levels.region]
North = ["x"]
"""
EXPECTED = [
    (1, "title", "be absent"),
    (4, "attributes[0].name", "no digit first"),
    (5, "attributes[0].kind", "Did you mean `integer`?"),
    (7, "attributes[0].width", "A range up to 104 would fit"),
    (8, "attributes[0].outside", "Did you mean `clamp`?"),
    (12, "attributes[1].lables", "Did you mean `labels`?"),
    (12, "attributes[1].labels[2]", "name each label once, got 'F'"),
    (13, "attributes[1].missing", "be one of `drop`, `other`"),
    (16, "attributes[2].name", "differ from the names of other attributes"),
    (19, "attributes[2].labels[1]", "a whole number or a boolean, got 1.5"),
    (26, "attributes[3].first", "be a week such as 2024-W10"),
    (27, "attributes[3].count", "be a whole number of 1 or more"),
    (33, "attributes[4].edges[2]", "be greater than the edge before it"),
    (34, "attributes[4].colour", "be one of the keys"),
    (37, "attributes[5].kind", "be one of `labels`"),
    (40, "attributes[5].levels.region.North[0]", "be a label of the attribute"),
]


def test_every_fault_is_told_at_once_with_its_line_and_how_to_mend_it(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text(BAD_TOML)
    found = check_file(path)
    assert found.domain is None
    assert [(fault.line, fault.place) for fault in found.faults] == [e[:2] for e in EXPECTED]
    for fault, (line, _, text) in zip(found.faults, EXPECTED, strict=True):
        assert text in fault.text
        assert fault.source == BAD_TOML.splitlines()[line - 1].strip()


def test_the_same_faults_stand_in_json(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    document = tomllib.loads(BAD_TOML)
    path.write_text(json.dumps(document, indent=1))
    found = check_file(path)
    assert [fault.place for fault in found.faults] == [e[1] for e in EXPECTED]
    texts = path.read_text().splitlines()
    for fault in found.faults:
        # A misspelt key is read as the one that it means.
        steps = re.findall(r"[^.\[\]]+", fault.place.replace(".labels[2]", ".lables[2]"))
        assert fault.line == _line_of_value(document, [int(s) if s.isdigit() else s for s in steps])
        assert fault.source == texts[fault.line - 1].strip()


def _line_of_value(document: Any, path: Sequence[str | int]) -> int:
    """Where the value at a path, or the last there is on the way, begins in JSON over many lines.

    By another route: the line that has another text once the value is another.
    """
    document = {"": deepcopy(document)}
    at: str | int = ""
    above: Any = document
    for step in path:
        below = above[at]
        if not (step in below if isinstance(below, dict) else isinstance(below, list)):
            break
        above, at = below, step
    above[at] = "the one that is sought"
    lines = json.dumps(document[""], indent=1, ensure_ascii=False).split("\n")
    return next(i for i, line in enumerate(lines, start=1) if "the one that is sought" in line)


@pytest.mark.parametrize("item", [*BAD_IN_SHAPE, *BAD_TOGETHER], ids=str)
def test_each_wrong_attribute_has_a_fault_and_a_right_one_beside_it_has_none(item: Any) -> None:
    """The first is the one that attach would tell."""
    document = {"attributes": [{**GOOD[0], "name": "right"}, item]}
    with pytest.raises(DomainError) as caught:
        domain_from_document(document)
    found = faults_of(document)
    assert str(found[0]) == str(caught.value)
    assert all(error.name.startswith("attributes[1]") for error in found)


@pytest.mark.parametrize("item", GOOD, ids=str)
def test_a_right_document_has_no_fault_and_stays_as_it_is(item: Any) -> None:
    document = {"attributes": [item]}
    before = json.dumps(document)
    assert faults_of(document) == []
    assert json.dumps(document) == before


_BROKEN = st.lists(st.sampled_from([*GOOD, *BAD_IN_SHAPE, *BAD_TOGETHER]), min_size=1, max_size=6)


@settings(max_examples=examples(200))
@given(_BROKEN)
def test_faults_are_found_until_none_is_left_and_each_once(items: list[Any]) -> None:
    """It ends, and finds none exactly where the parser reads the document."""
    document = {"attributes": items}
    found = [(error.name, error.condition) for error in faults_of(document)]
    assert len(set(found)) == len(found)
    try:
        domain_from_document(document)
    except DomainError:
        assert found
    else:
        assert not found


@pytest.mark.parametrize(
    ("name", "text", "line", "source"),
    [
        ("d.toml", 'a = 1\nb = "\n', 2, 'b = "'),
        ("d.toml", "= 1\nb = 2\n", 1, "= 1"),
        ("d.toml", "\n\n[[attributes]]\n  name = a b  \n", 4, "name = a b"),
        ("d.toml", "[t]\nx = 1\n# x\n[t]\n", 4, "[t]"),
        ("d.json", '{"a": 1,\n"b" 2}', 2, '"b" 2}'),
        ("d.json", '{"a": [1,\n2,\n  ],\n"b": 2}', 3, "],"),
        ("d.json", '{"a":\n"line 7", "b": nothing}', 2, '"line 7", "b": nothing}'),
        ("d.json", '{\n\n"a": 1', 3, '"a": 1'),
        ("d.json", f'{{"a": 1,\n"{"b" * 300}" 2}}', 2, '"' + "b" * 199),
    ],
)
def test_a_text_that_is_no_toml_or_json_is_told_by_its_line(
    tmp_path: Path, name: str, text: str, line: int, source: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = check_file(path)
    assert [(f.line, f.place, f.source) for f in found.faults] == [(line, name, source)]
    assert found.domain is None
    assert "must be well-formed" in found.faults[0].text


def test_a_fault_of_the_whole_file_is_on_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text("\n\n[]\n")
    assert [(f.line, f.source) for f in check_file(path).faults] == [(1, "")]
    path.write_text('\n{\n"title": 1,\n"attributes": []\n}')
    assert [f.line for f in check_file(path).faults] == [3, 4]


def test_a_right_file_has_the_lines_of_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text('licence = "x"\n[[attributes]]\nname = "a"\nlabels = ["b",\n"c"]\n')
    found = check_file(path)
    assert found.domain == load_domain(path)
    assert found.faults == ()
    assert found.fault("attributes[0].labels[1]", "t") == Fault(
        5, "attributes[0].labels[1]", "t", '"c"]'
    )
    assert [found.fault(at, "t").line for at in ("licence", "attributes[0].every")] == [1, 2]


def test_a_key_that_is_there_twice_is_refused_in_json_too(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('{"attributes": [{"name": "a", "labels": ["x"], "name": "b"}]}')
    with pytest.raises(DomainError, match=r"`name` must be given once in an object of JSON"):
        load_domain(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(60))
@given(_JSON, st.sampled_from([None, 1]))
def test_every_place_of_a_json_text_has_a_line(document: Any, indent: int | None) -> None:
    """By another route: a leaf that is replaced changes the text on its own line."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    lines = json_lines(text)
    paths = _paths(document)
    assert set(lines) == set(map(place_text, paths))
    # Two paths are one text where names have dots or brackets: the first one counts.
    for path in {place_text(path): path for path in reversed(paths)}.values():
        expected = 1 if indent is None else _line_of_value(document, path)
        assert lines[place_text(path)] == expected


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    pairs = list(value.items()) if isinstance(value, dict) else []
    pairs += list(enumerate(value)) if isinstance(value, list) else []
    return [place for key, below in pairs for place in ((*path, key), *_paths(below, (*path, key)))]


def test_lines_of_toml_are_found_in_all_of_its_notations() -> None:
    text = (
        '# c = 1\na.b = 1\n"q u" = """\nx = 1\n"""\n[t]\nc = {d = [1,\n 2], e.f = \'[\'}\n'
        "[[l]]\nk = 2024-03-01 10:00:00\n[[l]]\nk = 3\n[l.m]\nn = 4\n[[l.o]]\np = 5 # ]\n"
    )
    tomllib.loads(text)
    lines = toml_lines(text)
    expected = {"a.b": 2, "q u": 3, "t": 6, "t.c": 7, "t.c.d[1]": 8, "t.c.e.f": 8, "l[0]": 9}
    expected |= {"l[0].k": 10, "l[1]": 11, "l[1].k": 12, "l[1].m": 13, "l[1].m.n": 14}
    expected |= {"l[1].o[0]": 15, "l[1].o[0].p": 16}
    assert {place: lines.get(place) for place in expected} == expected
    assert line_of("l[1].m.zzz[3]", lines) == 13
    assert line_of("nowhere", lines) == 1


def test_a_label_that_no_cell_can_match_is_a_fault(tmp_path: Path) -> None:
    """Cells are trimmed; what was attached so is still read."""
    path = tmp_path / "d.json"
    items = [
        {"name": "a", "labels": ["x ", "y", " x", "\tz"]},
        {"name": "b", "labels": [" p", "q"], "codes": ["1", " 2"], "missing_markers": ["NA "]},
    ]
    path.write_text(json.dumps({"attributes": items}, indent=1))
    places = ["attributes[0].labels[0]", "attributes[0].labels[2]"]
    places += ["attributes[1].codes[1]", "attributes[1].missing_markers[0]"]
    assert [fault.place for fault in check_file(path).faults] == places
    with pytest.raises(DomainError, match="have no blank at its ends"):
        load_new_domain(path)
    assert domain_from_document({"attributes": items}).attributes[0].labels[0] == "x "

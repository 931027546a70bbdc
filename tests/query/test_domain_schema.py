"""The JSON Schema of domain files agrees with the parser; the list of keys is the only one."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import qserver
from deploy.site.pages.domain_keys import domain_keys
from qserver.errors import DomainError
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_keys import KEYS, NAMES, domain_schema
from tests.query.domain_documents import BAD_IN_SHAPE, BAD_TOGETHER, GOOD
from tests.sweeps import examples

_SCHEMA = domain_schema()
_VALIDATOR = Draft202012Validator(_SCHEMA)


def fits(document: object) -> bool:
    return _VALIDATOR.is_valid(document)


def is_read(document: object) -> bool:
    try:
        domain_from_document(document)
    except DomainError:
        return False
    return True


def test_the_schema_is_one_and_has_the_keys_of_the_parser() -> None:
    Draft202012Validator.check_schema(_SCHEMA)
    attribute = _SCHEMA["properties"]["attributes"]["items"]
    assert tuple(attribute["properties"]) == NAMES


@pytest.mark.parametrize("item", GOOD, ids=str)
def test_what_the_parser_reads_fits_and_so_does_what_it_stores(item: dict[str, Any]) -> None:
    document = {"attributes": [item]}
    assert fits(document)
    assert fits(domain_to_document(domain_from_document(document)))


@pytest.mark.parametrize("item", BAD_IN_SHAPE, ids=str)
def test_what_is_wrong_in_shape_is_refused_by_both(item: object) -> None:
    assert not is_read({"attributes": [item]})
    assert not fits({"attributes": [item]})


@pytest.mark.parametrize("item", BAD_TOGETHER, ids=str)
def test_what_is_wrong_together_is_seen_by_the_parser_alone(item: dict[str, Any]) -> None:
    """A schema that learns to see one of these should say so here."""
    assert not is_read({"attributes": [item]})
    assert fits({"attributes": [item]})


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"attributes": []}, {"attributes": {}}, {"attributes": GOOD[:1], "x": 1}],
)
def test_a_document_that_is_no_domain_is_refused_by_both(document: object) -> None:
    assert not is_read(document)
    assert not fits(document)


_TEXTS = ["", "x", "day", "2024", "drop", "other", "clamp", "labels", "integer", "real", "date"]
_LISTS: list[Any] = [[], ["x"], [0, 1], [1, 2, 3], {}, {"b": {"g": ["x"]}}]
_ANY = st.sampled_from([None, True, 0, 1, 3, 1.5, *_TEXTS, "period", *_LISTS])


@settings(max_examples=examples(400))
@given(st.sampled_from(GOOD), st.dictionaries(st.sampled_from(NAMES), _ANY, max_size=3))
def test_whatever_the_parser_reads_fits(item: Mapping[str, object], changes: Any) -> None:
    """The schema may accept more; it never refuses what attach takes."""
    document = {"attributes": [{**item, **changes}]}
    assert fits(document) or not is_read(document)


@pytest.mark.parametrize("name", ["adult-domain.json", "flights-domain.json"])
def test_the_shipped_domains_fit(name: str) -> None:
    path = Path(qserver.__file__).parent / "data" / name
    assert fits(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_the_example_of_each_key_is_read_with_each_of_its_kinds(key: Any) -> None:
    value = tomllib.loads(key.example)[key.name]
    base = {"labels": GOOD[0], "integer": GOOD[5], "real": GOOD[8], "date": GOOD[10]}
    base["period"] = GOOD[13]
    read = []
    for kind in key.of:
        item = {**base[kind], "kind": kind, key.name: value}
        if key.name == "kind":
            item = base[value]
        elif key.name in ("codes", "levels"):
            texts = ["York", "Kent", "Essex"] if key.name == "levels" else ["l", "m", "n"]
            item["labels"] = texts
        elif key.name == "labels" and kind == "period":
            item = {"name": "a", "kind": kind, "labels": value}
        elif key.name in ("edges", "range"):
            item = {"name": "a", "kind": kind, key.name: value}
        elif key.name == "width":
            item = {"name": "a", "kind": kind, "range": [0, 99 + (kind == "real")], "width": value}
        elif key.name == "first":
            item |= {"every": "month"}
        elif key.name == "every":
            item |= {"first": "2024-01"}
        read.append((kind, is_read({"attributes": [item]})))
    allowed = {kind for kind, is_fine in read if is_fine}
    # `outside` and `missing` of a period are `drop`, which the key's meaning says.
    excepted = {"period"} if key.name in ("outside", "missing") else set()
    assert allowed == set(key.of) - excepted


def test_the_reference_page_has_a_section_for_every_key() -> None:
    sections = re.findall(r"^## `(\w+)`$", domain_keys(), re.MULTILINE)
    assert tuple(sections) == NAMES

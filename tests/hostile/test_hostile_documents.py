"""Whatever a domain file or a question holds, it is read or refused by name; nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qserver.errors import CapacityError, DomainError, QueryError
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.query.domain_loading import load_domain
from tests.deployment import PEOPLE
from tests.sweeps import examples

pytestmark = [
    pytest.mark.promise(
        "Hostile input",
        "whatever is sent as a question or a domain is read, or refused with its place",
    ),
    pytest.mark.promise(
        "Hostile input",
        "a small file cannot ask for a huge domain",
    ),
]

_SETTINGS = settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NUMBER = st.one_of(
    st.integers(-5, 40),
    st.integers(),
    st.floats(),
    st.sampled_from([2**63, -(2**64), 10**400, "1/3", "1/0", "1e999999", "0x1", "²", "٣"]),
)
TEXT = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["Female", "other", "a\0b", "\ud800", "\u202eage", "e\u0301"]),
)
LEAF = st.one_of(st.none(), st.booleans(), NUMBER, TEXT)
JSON = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ATTRIBUTE = st.fixed_dictionaries(
    {"name": st.sampled_from(["age", "sex", "é"]) | LEAF},
    optional={
        "kind": st.sampled_from(["labels", "integer", "real"]) | LEAF,
        "labels": st.lists(TEXT, max_size=4) | JSON,
        "edges": st.lists(NUMBER, max_size=4) | JSON,
        "range": st.lists(NUMBER, min_size=2, max_size=2) | JSON,
        "width": NUMBER | JSON,
        "outside": st.sampled_from(["drop", "clamp", "other"]) | JSON,
        "missing": st.sampled_from(["drop", "other"]) | JSON,
        "missing_markers": st.lists(TEXT, max_size=2) | JSON,
        "other": TEXT | JSON,
        "colour": JSON,
    },
)
DOMAIN = st.fixed_dictionaries({"attributes": st.lists(ATTRIBUTE, max_size=3) | JSON}) | JSON
CONDITION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["between", "at_least", "below", "not", "weights"]) | TEXT,
            inner | st.lists(NUMBER, min_size=2, max_size=2),
            max_size=2,
        ),
    ),
    max_leaves=6,
)
WHERE = st.dictionaries(st.sampled_from(["age", "sex"]) | TEXT, CONDITION, max_size=3) | JSON
TERM = st.fixed_dictionaries({}, optional={"coefficient": NUMBER, "where": WHERE, "x": JSON})
QUESTION = st.one_of(
    st.fixed_dictionaries({"where": WHERE}),
    st.fixed_dictionaries({"any": st.lists(WHERE, max_size=4) | JSON}),
    st.fixed_dictionaries({"terms": st.lists(TERM | JSON, max_size=4) | JSON}),
    JSON,
)


@_SETTINGS
@given(QUESTION)
def test_a_question_is_read_or_refused_with_its_place(document: Any) -> None:
    try:
        query = parse_query(document, PEOPLE)
    except CapacityError:
        return
    except QueryError as exc:
        assert exc.name.startswith("query")  # noqa: PT017 - both outcomes are right
        assert "must" in str(exc)  # noqa: PT017
        return
    assert query.sizes == PEOPLE.sizes


@_SETTINGS
@given(DOMAIN)
def test_a_domain_is_read_or_refused_with_its_place(document: Any) -> None:
    try:
        domain = domain_from_document(document)
    except DomainError as exc:
        assert exc.name  # noqa: PT017 - both outcomes are right
        assert len(str(exc)) < 1000  # noqa: PT017
        return
    assert domain_from_document(domain_to_document(domain)) == domain


@_SETTINGS
@given(text=st.binary(max_size=60) | DOMAIN.map(lambda d: json.dumps(d).encode()), data=st.data())
def test_a_damaged_domain_file_is_read_or_refused(
    tmp_path: Path, text: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(text)
    if damaged:
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    path = tmp_path / data.draw(st.sampled_from(["domain.json", "domain.toml"]))
    path.write_bytes(bytes(damaged))
    try:
        assert isinstance(load_domain(path), Domain)
    except DomainError as exc:
        assert exc.name  # noqa: PT017 - both outcomes are right


def _labels(n_attributes: int, n_labels: int) -> dict[str, Any]:
    labels = [f"l{i}" for i in range(n_labels)]
    return {"attributes": [{"name": f"a{i}", "labels": labels} for i in range(n_attributes)]}


def _bins(n_bins: int) -> dict[str, Any]:
    return {"attributes": [{"name": "a", "kind": "integer", "range": [0, n_bins - 1]}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (_bins(10**12), "at most 1,048,576 bins"),
        (_labels(256, 2**14), "at most 2,097,152 values in all"),
        ({"attributes": [{"name": "a", "labels": ["x"]}] * 100_000}, "1 to 256 attributes"),
        ({"attributes": [{"name": "a", "labels": ["x"] * 200_000}]}, "name each label once"),
        ({"attributes": [{"name": "a" * 10**6, "labels": ["x"]}]}, "1 to 64 letters"),
        (
            {"attributes": [{"name": "a", "kind": "real", "range": [0, "1e-400"]}]},
            r"range\[1\]` must be a finite number",
        ),
    ],
)
def test_a_small_file_cannot_ask_for_a_huge_domain(document: Any, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        domain_from_document(document)


def test_a_deeply_nested_domain_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    path.write_text("[" * 1_000_000)
    with pytest.raises(DomainError, match="well-formed JSON"):
        load_domain(path)

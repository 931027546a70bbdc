"""Nothing that a client sends makes the server fail, and every refusal is a problem."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.calls import Caller, assert_problem

EXAMPLES = 150
_SETTINGS = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
KINDS = (
    "query",
    "explain",
    "probability",
    "workload",
    "workload/explain",
    "models",
    "models/m1/query",
    "models/m1/explain",
    "models/m1/structure",
    "models/explain",
)
PATHS = [f"/v1/datasets/adult/{kind}" for kind in KINDS]
NUMBER = st.one_of(
    st.integers(-5, 12),
    st.integers(),
    st.floats(),
    st.sampled_from([10**80, 1e-9, 0.5, "1/3", "1e5", "0x1", "1_0", "NaN"]),
)
LEAF = st.one_of(
    NUMBER, st.none(), st.booleans(), st.text(max_size=6), st.sampled_from(["Female", "other", "3"])
)
CONDITION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["between", "at_least", "below", "not", "weights", "Female", "3", "?"]),
            inner,
            max_size=2,
        ),
    ),
    max_leaves=6,
)
WHERE = st.dictionaries(st.sampled_from(["age", "sex", "income", "height"]), CONDITION, max_size=3)
TERM = st.fixed_dictionaries({"coefficient": NUMBER, "where": WHERE})
QUERY = st.one_of(
    st.fixed_dictionaries({"where": WHERE}),
    st.fixed_dictionaries({"any": st.lists(WHERE, max_size=3)}),
    st.fixed_dictionaries({"terms": st.lists(TERM, max_size=3)}),
    CONDITION,
)
REQUIREMENT = {"length": st.just(100) | LEAF, "confidence": st.just(0.95) | LEAF}
ITEM = st.fixed_dictionaries({"query": QUERY}, optional={**REQUIREMENT, "extra": LEAF})
WORKLOAD = st.fixed_dictionaries(
    {"questions": st.lists(ITEM | LEAF, max_size=3) | LEAF},
    optional={**REQUIREMENT, "simultaneous": st.booleans() | LEAF},
)
BODY = WORKLOAD | st.fixed_dictionaries(
    {"query": QUERY},
    optional={
        "length": st.just(100) | LEAF,
        "confidence": st.just(0.95) | LEAF,
        "at_least": LEAF,
        "between": CONDITION,
        "extra": LEAF,
    },
)


def _check(caller: Caller, path: str, body: bytes, headers: dict[str, str] | None = None) -> int:
    reply = caller.send(path, body, headers)
    if reply.status != 200:
        assert_problem(reply, reply.status, reply.document["code"])
        assert reply.status < 500, reply.body
    return reply.status


@pytest.mark.slow
@_SETTINGS
@given(path=st.sampled_from(PATHS), body=BODY)
def test_no_json_body_makes_the_server_fail(caller: Caller, path: str, body: Any) -> None:
    _check(caller, path, json.dumps(body).encode())


@_SETTINGS
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=80))
def test_no_bytes_make_the_server_fail(caller: Caller, path: str, body: bytes) -> None:
    assert _check(caller, path, body) >= 400


@pytest.mark.slow
@_SETTINGS
@given(data=st.data(), body=BODY)
def test_no_damaged_body_makes_the_server_fail(
    caller: Caller, data: st.DataObject, body: Any
) -> None:
    text = bytearray(json.dumps(body).encode())
    position = data.draw(st.integers(0, len(text) - 1))
    text[position] = data.draw(st.integers(0, 255))
    _check(caller, PATHS[0], bytes(text))


@pytest.mark.slow
@_SETTINGS
@given(
    name=st.text(max_size=20),
    parameters=st.dictionaries(
        st.sampled_from(["limit", "after", "where", "attribute", "x"]),
        st.text(max_size=12) | CONDITION.map(json.dumps),
        max_size=3,
    ),
    tail=st.sampled_from(["", "/history", "/ledger"]),
)
def test_no_url_makes_the_server_fail(
    caller: Caller, name: str, parameters: dict[str, str], tail: str
) -> None:
    query = "&".join(f"{k}={quote(v, errors='replace')}" for k, v in parameters.items())
    for dataset in ("adult", quote(name, safe="", errors="replace")):
        reply = caller.get(f"/v1/datasets/{dataset}{tail}?{query}")
        if reply.status != 200:
            assert_problem(reply, reply.status, reply.document["code"])
            assert reply.status < 500, reply.body


HEADER = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))


@pytest.mark.slow
@_SETTINGS
@given(
    headers=st.dictionaries(
        st.sampled_from(["Prefer", "Idempotency-Key", "X-Request-Id", "Content-Type", "Accept"]),
        HEADER,
        max_size=3,
    )
)
def test_no_header_makes_the_server_fail(caller: Caller, headers: dict[str, str]) -> None:
    body = b'{"query": {"where": {}}, "length": 100, "confidence": 0.95}'
    try:
        _check(caller, PATHS[0], body, headers)
    except http.client.HTTPException as exc:
        raise AssertionError(headers) from exc

"""Questions that are refused: by the place of the fault, whatever a stranger sends."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import InputError, QueryError
from qserver.query.asking.structured_question import MAX_DEPTH, condition_weights, parse_query
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import MAX_TERMS, LinearQuery
from qserver.query.primitive import primitive
from tests.sweeps import examples

SEX = Attribute(name="sex", kind="labels", labels=("F", "M"), missing="other", other="unknown")
AGE = Attribute(name="age", kind="integer", edges=tuple(map(Fraction, (0, 1, 2, 5, 9))))
PAY = Attribute(name="pay", kind="real", edges=(Fraction(0), Fraction(1, 3), Fraction(5, 2)))
DOMAIN = Domain((SEX, AGE, PAY))


def nested_list(depth: int) -> object:
    found: object = "F"
    for _ in range(depth):
        found = [found]
    return found


def nested_not(depth: int) -> object:
    found: object = "F"
    for _ in range(depth):
        found = {"not": found}
    return found


def test_not_nests_down_to_the_bound_and_no_deeper() -> None:
    deepest = condition_weights(nested_not(MAX_DEPTH), SEX, name="c")
    assert deepest.weights.dense.tolist() == [1, 0, 0]
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(QueryError, match=r"^`c\.not\.not.*be nested at most 32 deep"):
            condition_weights(nested_not(depth), SEX, name="c")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (None, "query"),
        ([], "query"),
        ("SELECT", "query"),
        ({}, "query"),
        ({"where": {}, "any": []}, "query"),
        ({"when": {}}, "query"),
        ({1: 2}, "query"),
        ({10**5000: 2}, "query"),
        (nested_list(100_000), "query"),
        ({"where": []}, "query.where"),
        ({"where": {"height": 1}}, "query.where.height"),
        ({"where": {None: 1}}, "query.where"),
        ({"where": {10**5000: 1}}, "query.where"),
        ({"where": {"a\n\ud800": 1}}, "query.where.a\ufffd\ufffd"),
        ({"where": {"sex": None}}, "query.where.sex"),
        ({"where": {"sex": True}}, "query.where.sex"),
        ({"where": {"sex": "X"}}, "query.where.sex"),
        ({"where": {"sex": 0}}, "query.where.sex"),
        ({"where": {"sex": 10**5000}}, "query.where.sex"),
        ({"where": {"sex": nested_list(100_000)}}, "query.where.sex[0]"),
        ({"where": {"sex": ["F", ["M"]]}}, "query.where.sex[1]"),
        ({"where": {"sex": ["F", {"not": "M"}]}}, "query.where.sex[1]"),
        ({"where": {"sex": {}}}, "query.where.sex"),
        ({"where": {"sex": {"is": "F"}}}, "query.where.sex"),
        ({"where": {"sex": {1: "F"}}}, "query.where.sex"),
        ({"where": {"sex": {"not": "F", "weights": {}}}}, "query.where.sex"),
        ({"where": {"sex": {"below": 3}}}, "query.where.sex.below"),
        ({"where": {"sex": {"not": {"weights": {"F": 2}}}}}, "query.where.sex.not"),
        ({"where": {"sex": {"weights": ["F"]}}}, "query.where.sex.weights"),
        ({"where": {"sex": {"weights": {1: 1}}}}, "query.where.sex.weights"),
        ({"where": {"sex": {"weights": {"X": 1}}}}, "query.where.sex.weights.X"),
        ({"where": {"sex": {"weights": {"F": "1/0"}}}}, "query.where.sex.weights.F"),
        ({"where": {"sex": {"weights": {"F": True}}}}, "query.where.sex.weights.F"),
        ({"where": {"sex": {"weights": {"F": 10**12, "M": "1e-9"}}}}, "query.where.sex.weights"),
        ({"where": {"age": True}}, "query.where.age"),
        ({"where": {"age": "3"}}, "query.where.age"),
        ({"where": {"age": 0.5}}, "query.where.age"),
        ({"where": {"age": 9}}, "query.where.age"),
        ({"where": {"age": -1}}, "query.where.age"),
        ({"where": {"age": "1_0"}}, "query.where.age"),
        ({"where": {"age": "١"}}, "query.where.age"),
        ({"where": {"age": [0, float("nan")]}}, "query.where.age[1]"),
        ({"where": {"age": {"below": float("inf")}}}, "query.where.age.below"),
        ({"where": {"age": {"at_least": Decimal("1e400")}}}, "query.where.age.at_least"),
        ({"where": {"age": {"at_least": 10**400}}}, "query.where.age.at_least"),
        ({"where": {"age": {"between": 3}}}, "query.where.age.between"),
        ({"where": {"age": {"between": []}}}, "query.where.age.between"),
        ({"where": {"age": {"between": [1, 2, 3]}}}, "query.where.age.between"),
        ({"where": {"age": {"between": [2, 1]}}}, "query.where.age.between"),
        ({"where": {"age": {"between": [1, "x"]}}}, "query.where.age.between[1]"),
        ({"where": {"age": {"weights": {"1": 1, "1.0": 2}}}}, "query.where.age.weights.1.0"),
        ({"where": {"pay": 0}}, "query.where.pay"),
        ({"any": []}, "query.any"),
        ({"any": {}}, "query.any"),
        ({"any": ["sex"]}, "query.any[0]"),
        ({"any": [{}] * (MAX_TERMS + 1)}, "query.any"),
        ({"any": [{"sex": "F"}, {"sex": {"weights": {"F": 2}}}]}, "query.any[1]"),
        ({"any": [{"sex": {"weights": {"F": -1}}}]}, "query.any[0]"),
        ({"terms": []}, "query.terms"),
        ({"terms": [{}] * (MAX_TERMS + 1)}, "query.terms"),
        ({"terms": [3]}, "query.terms[0]"),
        ({"terms": [{"weight": 1}]}, "query.terms[0]"),
        ({"terms": [{}, {"coefficient": "1e400"}]}, "query.terms[1].coefficient"),
        ({"terms": [{"coefficient": False}]}, "query.terms[0].coefficient"),
        ({"terms": [{"where": {"age": "x"}}]}, "query.terms[0].where.age"),
    ],
    ids=lambda v: v if isinstance(v, str) and v.startswith("query") else "",
)
def test_every_wrong_question_is_refused_by_its_place(document: object, place: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query(document, DOMAIN)
    assert caught.value.name == place
    assert str(caught.value).startswith((f"`{place}` must ", f"`{place}`: "))
    assert len(str(caught.value)) < 1000
    str(caught.value).encode()


def query_or_error(document: object) -> LinearQuery | InputError:
    try:
        return parse_query(document, DOMAIN, name="body.query")
    except InputError as exc:
        return exc


scalars = st.sampled_from(
    [
        "F",
        "M",
        "unknown",
        "2..4",
        "1/3",
        "1/0",
        "",
        0,
        1,
        2,
        -1,
        0.5,
        True,
        None,
        float("nan"),
        1e300,
    ]
)
words = ["where", "any", "terms", "coefficient", "sex", "age", "pay", "F", "1", "between", "not"]
keys = st.sampled_from([*words, "at_least", "below", "weights"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=12,
)


@settings(max_examples=examples(400))
@given(st.sampled_from(["where", "any", "terms"]), documents)
def test_whatever_comes_is_a_query_or_an_input_error_below_its_place(
    form: str, document: object
) -> None:
    outcome = query_or_error({form: document})
    if isinstance(outcome, InputError):
        assert outcome.name.startswith(f"body.query.{form}")
        assert str(outcome).startswith((f"`{outcome.name}` must ", f"`{outcome.name}`: "))
    else:
        cell = tuple(size - 1 for size in DOMAIN.sizes)
        assert abs(outcome.value_at(cell)) <= primitive(outcome).sensitivity


def test_weights_too_far_apart_across_terms_are_refused_below_the_question() -> None:
    far = [f"1/{10**9 - i}" for i in range(40)]
    document = {"terms": [{"coefficient": c, "where": {"age": {"weights": {"0": c}}}} for c in far]}
    assert parse_query({"terms": document["terms"][:1]}, DOMAIN).terms
    with pytest.raises(QueryError, match=r"^`query\.terms\.coefficient` must have"):
        parse_query(document, DOMAIN)

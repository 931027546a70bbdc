"""Bodies made to take time, memory or sense from a server, and what must become of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

REQUIREMENT = '"length": 100, "confidence": 0.95'
MANY = 100_000


@dataclass(frozen=True)
class HostileInput:
    """One body, and the refusal that it must get.

    Args:
        body: makes the body; called once.
        codes: problem codes, one of which it must get; none: an answer will do as well.
        field: what the refusal must name, or ''.
        dataset: whom to ask.
        about_requirement: the length is what is wrong, which a probability has none of.
        route: the one route, below the dataset's, that it is for; '' for those of questions.
    """

    name: str
    body: Callable[[], bytes]
    codes: tuple[str, ...] = ("invalid_query",)
    field: str = ""
    dataset: str = "people"
    about_requirement: bool = False
    route: str = ""


def hostile_inputs() -> tuple[HostileInput, ...]:
    """Every input of this file."""
    groups = (_of_size(), _of_depth(), _of_numbers(), _of_text(), _of_terms(), _of_unions())
    return tuple(found for group in groups for found in group)


def hostile_workloads() -> Iterator[HostileInput]:
    """What only many questions can do; each is put into a workload as its one question, or more."""
    small = question('{"where": {}}')
    yield HostileInput("a thousand questions and one", lambda: _many(small, 1001), ("too_large",))
    yield HostileInput(
        "fifty thousand empty questions", lambda: _many(b"{}", 50_000), ("invalid_input",)
    )
    cells = [{"age": 20 + i, "sex": sex} for i in range(10) for sex in ("Male", "Female")]
    weighted = [{"coefficient": i + 1, "where": cell} for i, cell in enumerate(cells[:12])]
    terms = question(json.dumps({"terms": weighted}, separators=(",", ":")))
    yield HostileInput(
        "a thousand questions of a dozen terms", lambda: _many(terms, 1000), ("too_large",), "terms"
    )
    yield HostileInput(
        "the same question a thousand times, at once",
        lambda: _many(small, 1000) + b'], "simultaneous": true, "x": [',
        ("invalid_input",),
    )


def _many(body: bytes, n: int) -> bytes:
    return b",".join([body] * n)


def question(query: str) -> bytes:
    """A question's body around the JSON text of a query."""
    return f'{{"query": {query}, {REQUIREMENT}}}'.encode()


def _of_size() -> Iterator[HostileInput]:
    large = ("body_too_large",)
    yield HostileInput("32 MiB of blanks", lambda: b" " * (32 << 20), large)
    yield HostileInput("8 MiB of digits", lambda: b'{"length": ' + b"9" * (8 << 20), large)
    million = 1_000_000
    yield HostileInput(
        "a megabyte of brackets", lambda: b"[" * million, ("malformed_json",), "deeper than 64"
    )
    yield HostileInput(
        "a text of a megabyte",
        lambda: question(json.dumps({"where": {"sex": "x" * million}})),
        field="query.where.sex",
    )
    yield HostileInput(
        "a field's name of a megabyte",
        lambda: b'{"' + b"f" * million + b'": 1}',
        ("invalid_input",),
    )
    yield HostileInput(
        "fifty thousand unknown fields",
        lambda: json.dumps({f"f{i}": 0 for i in range(MANY // 2)}).encode(),
        ("invalid_input",),
        "f0",
    )
    yield HostileInput(
        "one key sixty thousand times",
        lambda: b"{" + b",".join([b'"query": 1'] * 60_000) + b"}",
        ("malformed_json",),
        "query",
    )
    yield HostileInput(
        "sixty thousand keys, the last of them twice",
        lambda: b"{" + b",".join(b'"%d": 1' % min(i, 59_998) for i in range(60_000)) + b"}",
        ("malformed_json",),
        "59998",
    )


def _of_depth() -> Iterator[HostileInput]:
    depth = 60_000
    yield HostileInput(
        "conditions nested sixty thousand deep",
        lambda: question('{"where": {"sex": ' + '{"not": ' * depth + '"Male"' + "}" * depth + "}}"),
        ("malformed_json",),
        "deeper than 64",
    )
    yield HostileInput(
        "conditions nested just within JSON's bound",
        lambda: question('{"where": {"sex": ' + '{"not": ' * 50 + '"Male"' + "}" * 50 + "}}"),
        field="query.where.sex",
    )
    yield HostileInput(
        "lists nested in a list of values",
        lambda: question('{"where": {"sex": ' + "[" * 40 + '"Male"' + "]" * 40 + "}}"),
        field="query.where.sex",
    )


def _of_numbers() -> Iterator[HostileInput]:
    malformed = ("malformed_json",)
    for text in ("NaN", "Infinity", "-Infinity"):
        yield HostileInput(f"length {text}", _of_length(text), malformed, text)
    lengths = {
        "1e400": ("invalid_input", "malformed_json"),
        "1e999999999999999999999": ("malformed_json",),
        "-1": ("invalid_requirement",),
        "0": ("invalid_requirement",),
        "1e-400": ("invalid_requirement",),
        str(2**70): ("invalid_requirement",),
        "true": ("invalid_input",),
        '"100"': ("invalid_input",),
        "null": ("invalid_input",),
    }
    for text, codes in lengths.items():
        field = "" if "malformed_json" in codes else "length"
        yield HostileInput(f"length {text}", _of_length(text), codes, field, about_requirement=True)
    yield HostileInput(
        "an integer of 4,000 digits",
        lambda: question('{"where": {"age": ' + "9" * 4000 + "}}"),
        malformed,
        "64 characters",
    )
    for text in (str(2**63), str(-(2**64)), "1e18", "1e308", "1e-300", '"1e999999"', '"1/0"'):
        yield HostileInput(f"age {text}", _of_age(text), ("invalid_query",), "query.where.age")
        yield HostileInput(
            f"coefficient {text}", _of_coefficient(text), ("invalid_query",), "coefficient"
        )


def _of_length(text: str) -> Callable[[], bytes]:
    return lambda: f'{{"query": {{"where": {{}}}}, "length": {text}, "confidence": 0.95}}'.encode()


def _of_age(text: str) -> Callable[[], bytes]:
    return lambda: question(f'{{"where": {{"age": {text}}}}}')


def _of_condition(attribute: str, condition: object) -> Callable[[], bytes]:
    return lambda: question(json.dumps({"where": {attribute: condition}}))


def _of_coefficient(text: str) -> Callable[[], bytes]:
    return lambda: question(f'{{"terms": [{{"coefficient": {text}, "where": {{}}}}]}}')


def _of_text() -> Iterator[HostileInput]:
    labels = {
        "a full-width letter": "Ｆemale",
        "a zero-width space": "Fem\u200bale",
        "a right-to-left override": "\u202eelameF",
        "a combining accent": "Fe\u0301male",
        "a Cyrillic a": "Fem\u0430le",
        "a trailing blank": "Female ",
        "a NUL": "Female\0",
        "a byte order mark": "\ufeffFemale",
        "another case": "FEMALE",
    }
    for name, label in labels.items():
        yield HostileInput(
            f"a label with {name}", _of_condition("sex", label), field="query.where.sex"
        )
    for name, digits in {"Arabic": "٢٥", "full-width": "２５", "superscript": "²"}.items():
        yield HostileInput(f"{name} digits", _of_condition("age", digits), field="query.where.age")
    malformed = ("malformed_json",)
    yield HostileInput(
        "half a surrogate pair", lambda: question('{"where": {"sex": "\\ud800"}}'), malformed
    )
    yield HostileInput(
        "overlong UTF-8", lambda: question("X").replace(b"X", b'"\xc0\xaf"'), malformed
    )
    yield HostileInput(
        "UTF-16", lambda: question('{"where": {}}').decode().encode("utf-16"), malformed
    )


def _of_terms() -> Iterator[HostileInput]:
    yield HostileInput(
        "a hundred thousand terms",
        lambda: question('{"terms": [' + ",".join(["{}"] * MANY) + "]}"),
        ("invalid_query", "too_large"),
        "query.terms",
    )
    yield HostileInput(
        "a hundred thousand different terms",
        lambda: _terms({"age": i % 100} for i in range(MANY)),
        ("body_too_large",),
    )
    yield HostileInput(
        "fifty thousand terms with conditions",
        lambda: _terms({} for _ in range(MANY // 2)),
        ("invalid_query", "too_large"),
        "query.terms",
    )
    yield HostileInput(
        "a list of a hundred thousand values",
        lambda: question('{"where": {"age": [' + ",".join(["20"] * MANY) + "]}}"),
        (),
    )
    yield HostileInput(
        "weights for fifty thousand labels",
        _of_condition("sex", {"weights": {f"l{i}": 1 for i in range(MANY // 2)}}),
        field="query.where.sex.weights.l0",
    )
    yield HostileInput(
        "4,096 terms over all attributes of a wide domain",
        lambda: _wide_terms(4096),
        ("invalid_query", "too_large", "body_too_large"),
        dataset="wide",
    )
    yield HostileInput(
        "as many different terms as fit a body",
        lambda: _wide_terms(1500),
        ("too_large",),
        "8,192 conditions",
        dataset="wide",
    )
    yield HostileInput(
        "as many conditions as a query may have", lambda: _wide_terms(409), (), dataset="wide"
    )
    yield HostileInput(
        "prime denominators whose product passes every bound",
        lambda: question(json.dumps(_prime_denominators())),
        ("invalid_query", "too_large"),
        dataset="wide",
    )


def _of_unions() -> Iterator[HostileInput]:
    yield HostileInput(
        "a union of overlapping boxes in many dimensions",
        lambda: question(json.dumps({"any": [_box(i, 6) for i in range(60)]})),
        ("invalid_query", "too_large"),
        dataset="wide",
    )
    yield HostileInput(
        "a union of two thousand boxes",
        lambda: question(json.dumps({"any": [_box(i, 3) for i in range(2000)]})),
        ("invalid_query", "too_large"),
        dataset="wide",
    )
    yield HostileInput(
        "a union of four thousand equal boxes",
        lambda: question(json.dumps({"any": [_box(0, 3)] * 4000})),
        (),
        dataset="wide",
    )


def _terms(items: Iterable[dict[str, Any]]) -> bytes:
    return question(
        json.dumps({"terms": [{"where": item} for item in items]}, separators=(",", ":"))
    )


def _wide_terms(n_terms: int) -> bytes:
    return _terms(
        {f"a{(i * 7 + j) % 60}": {"below": 1 + (i * 31 + j * 17) % 999} for j in range(20)}
        for i in range(n_terms)
    )


def _box(i: int, n_axes: int) -> dict[str, Any]:
    return {
        f"a{(i + j * 11) % 60}": {"between": [i % 400, 400 + (i * 7) % 500]} for j in range(n_axes)
    }


def _prime_denominators() -> dict[str, Any]:
    primes = [n for n in range(2, 8000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    terms = [
        {"coefficient": f"1/{p}", "where": {"a0": {"below": 1 + i % 999}}}
        for i, p in enumerate(primes)
    ]
    return {"terms": terms}

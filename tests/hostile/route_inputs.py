"""Bodies for the routes that take something else than a question: SQL, models, audits of models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from tests.hostile.inputs import MANY, HostileInput
from tests.hostile.stage import N_WIDE

SQL = ("invalid_sql",)
_REQUIREMENT = "WITHIN 50 CONFIDENCE 0.95"
_INPUT = ("invalid_input",)
_MALFORMED = ("malformed_json",)
_EDGES = {"edges": [["sex", "age"]]}


def route_inputs(model: str) -> tuple[HostileInput, ...]:
    """Every input of this file.

    Args:
        model: id of a network of `people` over sex and age.
    """
    models, questions = tuple(hostile_models()), tuple(hostile_model_questions(model))
    return (
        *hostile_statements(),
        *models,
        *(replace(one, route="models/explain") for one in models),
        *hostile_audits(),
        *questions,
        *(replace(one, route=f"models/{model}/explain", codes=()) for one in questions),
        *hostile_proposals(model),
    )


def hostile_statements() -> Iterator[HostileInput]:
    """For `sql`: texts that are no statement, or one that would take too long."""
    yield _statement("a statement of 900,000 characters", "x" * 900_000, ("too_large",))
    texts = {
        "nothing": "",
        "blanks": " " * 5000,
        "a NUL": f"SELECT COUNT(*) FROM people WHERE sex = 'Ma\0le' {_REQUIREMENT}",
        "a Cyrillic S": f"\u0405ELECT COUNT(*) FROM people {_REQUIREMENT}",
        "a right-to-left override": f"SELECT COUNT(*) FROM \u202eelpoep {_REQUIREMENT}",
        "full-width digits": "SELECT COUNT(*) FROM people WITHIN ５０ CONFIDENCE 0.95",
        "a second statement": f"SELECT COUNT(*) FROM people {_REQUIREMENT}; DROP TABLE people",
        "an open string": "SELECT COUNT(*) FROM people WHERE sex = 'Male",
        "an open comment": f"SELECT COUNT(*) /* FROM people {_REQUIREMENT}",
        "another table": f"SELECT COUNT(*) FROM people, wide {_REQUIREMENT}",
        "rows": f"SELECT * FROM people {_REQUIREMENT}",
        "a subquery": f"SELECT COUNT(*) FROM people WHERE age IN (SELECT 1) {_REQUIREMENT}",
        "an inner SELECT that cuts": f"SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 9) AS t "
        f"{_REQUIREMENT}",
        "a function": f"SELECT COUNT(*) FROM people WHERE sleep(100) = 0 {_REQUIREMENT}",
    }
    for name, text in texts.items():
        yield _statement(f"a statement with {name}", text)
    for number in ("NaN", "1e400", "-50", "0", "1e-400", "9" * 4000, "1" + "0" * 30, "0x32"):
        text = f"SELECT COUNT(*) FROM people WITHIN {number} CONFIDENCE 0.95"
        yield _statement(f"WITHIN {number[:9]}", text, (*SQL, "invalid_requirement"))
        text = f"SELECT COUNT(*) FROM people WHERE age = {number} {_REQUIREMENT}"
        yield _statement(f"age {number[:9]}", text, ())
    for number in ("0", "1", "1.0000001", "1e999", "-1"):
        text = f"SELECT COUNT(*) FROM people WITHIN 50 CONFIDENCE {number}"
        yield _statement(f"CONFIDENCE {number}", text, (*SQL, "invalid_requirement"))
    yield from _long_statements()


def _long_statements() -> Iterator[HostileInput]:
    bounded = (*SQL, "too_large", "invalid_query", "invalid_input")
    where = {
        "brackets nested a thousand deep": "(" * 1000 + "sex = 'Male'" + ")" * 1000,
        "a thousand NOTs": "NOT " * 1000 + "sex = 'Male'",
        "a thousand ORs": " OR ".join(["sex = 'Male'"] * 1000),
        "a thousand different ORs": " OR ".join(f"age = {i}" for i in range(1000)),
        "ANDs of ORs": " AND ".join([f"(age = {i} OR sex = 'Male')" for i in range(300)]),
        "a list of 5,000 values": f"age IN ({', '.join(map(str, range(5000)))})",
    }
    chain = ", ".join(f"w{i + 1} AS (SELECT * FROM w{i} WHERE age <> {i})" for i in range(900))
    wide = ", ".join(f"age + {i}" for i in range(3000))
    whole = {
        "a chain of 900 WITHs": f"WITH w0 AS (SELECT * FROM people), {chain} "
        "SELECT COUNT(*) FROM w900",
        "SELECTs nested 200 deep": "SELECT COUNT(*) FROM "
        + "(SELECT * FROM " * 200
        + "people"
        + ") AS t" * 200,
        "a ROLLUP of 3,000": f"SELECT COUNT(*) FROM people GROUP BY ROLLUP ({wide})",
        "2,000 UNION ALLs": " UNION ALL ".join(["SELECT COUNT(*) FROM people"] * 2000),
        "900 ranks": "SELECT "
        + ", ".join(["RANK() OVER (ORDER BY COUNT(*))"] * 900)
        + " FROM people GROUP BY age",
    }
    for name, text in whole.items():
        yield _statement(name, f"{text} {_REQUIREMENT}", bounded)
    for name, condition in where.items():
        text = f"SELECT COUNT(*) FROM people WHERE {condition} {_REQUIREMENT}"
        yield _statement(f"a statement with {name}", text, ())
    columns = ", ".join(["COUNT(*)"] * 2000)
    yield _statement("two thousand columns", f"SELECT {columns} FROM people {_REQUIREMENT}", ())
    for n in (2, N_WIDE):
        names = ", ".join(f"a{i}" for i in range(n))
        text = f"SELECT {names}, COUNT(*) FROM wide GROUP BY {names} {_REQUIREMENT}"
        yield _statement(f"GROUP BY {n} attributes of a thousand bins", text, bounded, "wide")
    ors = " OR ".join(f"(a{i} < 500 AND a{(i + 7) % N_WIDE} >= 300)" for i in range(N_WIDE))
    text = f"SELECT COUNT(*) FROM wide WHERE {ors} {_REQUIREMENT}"
    yield _statement("a union in sixty dimensions", text, bounded, "wide")
    ands = " AND ".join(f"(a{i} < 500 OR a{(i + 7) % N_WIDE} >= 300)" for i in range(N_WIDE))
    text = f"SELECT COUNT(*) FROM wide WHERE {ands} {_REQUIREMENT}"
    yield _statement("a product of unions in sixty dimensions", text, bounded, "wide")


def hostile_models() -> Iterator[HostileInput]:
    """For `models`: specifications that are none, or whose tables nobody could count."""
    yield from _numbers({"kind": "network", "network": _EDGES}, "epsilon")
    yield _model("an unknown kind", {"kind": "x" * 900_000, "epsilon": 0}, "kind")
    for name, network in _networks().items():
        yield _model(name, {"kind": "network", "network": network, "epsilon": 0.01})
    wide = {
        "a table of 10^9 cells": [["a0", "a2"], ["a1", "a2"]],
        "sixty parents": [[f"a{i}", "a59"] for i in range(59)],
        "all pairs of sixty": [list(pair) for pair in combinations(_wide_names(), 2)],
        "a chain of tables of a million cells": [[f"a{i}", f"a{i + 1}"] for i in range(59)],
    }
    for name, edges in wide.items():
        network = {"edges": edges, "variables": _wide_names()}
        yield _model(name, {"kind": "network", "network": network, "epsilon": 0.01}, on="wide")
    marginals: dict[str, Any] = {
        "a hundred thousand marginals": [["age"]] * MANY,
        "a marginal of a hundred thousand names": [["age"] * MANY],
        "a marginal twice over one attribute": [["age", "age"]],
        "an empty marginal": [[]],
        "marginals that are a text": "age",
        "a marginal of a NUL": [["a\0ge"]],
        "marginals that are numbers": [[2**70]],
    }
    for name, lists in marginals.items():
        yield _model(name, {"kind": "marginals", "marginals": lists, "epsilon": 0.01}, "marginals")
    everything = {"kind": "marginals", "marginals": [_wide_names()], "epsilon": 0.01}
    yield _model("a marginal of 1000^60 cells", everything, "marginals", on="wide")
    pairs = {"kind": "marginals", "marginals": [[f"a{i}", f"a{i + 1}"] for i in range(59)]}
    yield _model("marginals of a million cells each", {**pairs, "epsilon": 0.01}, on="wide")


def hostile_audits() -> Iterator[HostileInput]:
    """For `models/audit`: structures and figures for which no power can be told, or only slowly."""
    whole = {"network": _EDGES, "records": 3000, "epsilon": 1.0}
    yield from _numbers({"network": _EDGES, "epsilon": 1.0}, "records", route="models/audit")
    yield from _numbers({"network": _EDGES, "records": 3000}, "epsilon", route="models/audit")
    for name, network in _networks().items():
        yield _body(f"audit: {name}", {**whole, "network": network}, route="models/audit")
    for gate in ({}, {"fpr": 0, "max_power": 1}, {"fpr": 1e-300, "max_power": 2}, [], "x" * 9999):
        body = {**whole, "gate": gate}
        yield _body(f"audit: gate {str(gate)[:40]}", body, "gate", route="models/audit")
    edges = [list(pair) for pair in combinations(_wide_names(), 2)]
    body = {**whole, "network": {"edges": edges}}
    yield _body("audit: all pairs of sixty", body, route="models/audit", on="wide", codes=())
    tiny = {**whole, "reference_records": 1e-300, "records": 1e300}
    yield _body("audit: 1e300 records against 1e-300", tiny, route="models/audit", codes=())


def hostile_proposals(model: str) -> Iterator[HostileInput]:
    """For a model's `structure`: figures and attributes from which nothing can be proposed."""
    route = f"models/{model}/structure"
    whole = {"records": 3000, "epsilon": 1.0, "gate": {"fpr": 0.05, "max_power": 0.2}}
    without = {name: value for name, value in whole.items() if name != "records"}
    yield from _numbers(without, "records", route=route)
    bodies: dict[str, Any] = {
        "a hundred thousand attributes": {"variables": ["age"] * MANY},
        "an attribute with a NUL": {"variables": ["age\0", "sex"]},
        "no attributes": {"variables": []},
        "2^70 parents": {"max_parents": 2**70},
        "a gain of none": {"min_gain": -1},
        "no gate": {"gate": None},
    }
    for name, change in bodies.items():
        yield _body(f"proposal: {name}", {**whole, **change}, route=route)
    free = {**whole, "gate": {"fpr": 1e-300, "max_power": 1}, "records": 1e-300}
    yield _body("proposal: 1e-300 records", free, route=route, codes=())


def hostile_model_questions(model: str) -> Iterator[HostileInput]:
    """For a model's `query`: what it has no answer to."""
    route = f"models/{model}/query"
    bodies: dict[str, Any] = {
        "nothing": {},
        "everything": {"marginal": ["age"], "most_probable": [], "count": {}},
        "a hundred thousand names": {"marginal": ["age"] * MANY},
        "a name of 900,000 characters": {"marginal": ["x" * 900_000]},
        "fifty thousand labels": {
            "marginal": ["age"],
            "given": {f"l{i}": "x" for i in range(MANY // 2)},
        },
        "a label that is none": {"marginal": ["age"], "given": {"sex": "Fe\u0301male"}},
        "a given that is asked": {"marginal": ["age"], "given": {"age": "20"}},
        "most probable of what is not there": {"most_probable": ["a\0"]},
        "a length of none": {"count": {"where": {}}, "check": {"length": 0, "confidence": 0.5}},
        "a fallback of none": {
            "count": {"where": {}},
            "check": {"length": 9, "confidence": 0.5, "fallback_length": 0},
        },
        "a fallback that is longer": {
            "count": {"where": {}},
            "check": {"length": 9, "confidence": 0.5, "fallback_length": 1e15},
        },
        "a check without a count": {"marginal": ["age"], "check": {"length": 9, "confidence": 0.5}},
        "a count of a list": {"count": []},
    }
    codes = (*_INPUT, "invalid_network", "invalid_requirement", "too_large")
    for name, body in bodies.items():
        yield _body(f"model: {name}", body, route=route, codes=codes)


def _networks() -> dict[str, Any]:
    """Structures over two attributes that are none."""
    return {
        "no network": None,
        "a number for a network": 2**70,
        "fifty thousand edges": {"edges": [["sex", "age"]] * (MANY // 2)},
        "a circle": {"edges": [["sex", "age"], ["age", "sex"]]},
        "an edge to itself": {"edges": [["age", "age"]]},
        "edges that are numbers": {"edges": [[1, 2]]},
        "an edge of one": {"edges": [["age"]]},
        "a name of 500,000 characters": {"edges": [["sex", "x" * 500_000]]},
        "a name with a NUL": {"edges": [["sex", "age\0"]]},
        "a hundred thousand variables": {"edges": [], "variables": ["age"] * MANY},
        "BIF of 900,000 brackets": "{" * 900_000,
        "BIF that ends": "network x { } variable age {",
        "BIF with a variable of 10^12 labels": "network x { } variable age { type discrete "
        "[1000000000000] { a }; }",
        "BIF of another domain": "network x { } variable age { type discrete [2] { a, b }; } "
        "probability ( age ) { table 0.5, 0.5; }",
    }


def _numbers(
    body: Mapping[str, Any], field: str, *, route: str = "models"
) -> Iterator[HostileInput]:
    """A field that is no number, or none in range."""
    start = json.dumps(body)[:-1]
    for text in ("NaN", "-Infinity", "1e400", "-1", "true", '"1"', "[]", "9" * 4000):
        malformed = text in ("NaN", "-Infinity", "1e400") or len(text) > 99
        yield HostileInput(
            f"{route}: {field} {text[:9]}",
            partial(f'{start}, "{field}": {text}}}'.encode),
            (*_MALFORMED, *_INPUT) if malformed else _INPUT,
            "" if malformed else field,
            route=route,
        )


def _statement(
    name: str, text: str, codes: tuple[str, ...] = SQL, dataset: str = "people"
) -> HostileInput:
    return _body(name, {"sql": text}, route="sql", codes=codes, on=dataset)


def _model(
    name: str, body: Mapping[str, Any], field: str = "", *, on: str = "people"
) -> HostileInput:
    codes = (*_INPUT, "invalid_network", "too_large", "budget_exhausted")
    return _body(name, body, field, route="models", codes=codes, on=on)


def _body(
    name: str,
    body: Mapping[str, Any],
    field: str = "",
    *,
    route: str,
    codes: tuple[str, ...] = (*_INPUT, "invalid_network", "too_large"),
    on: str = "people",
) -> HostileInput:
    text = json.dumps(body).encode()
    return HostileInput(name, lambda: text, codes, field, on, route=route)


def _wide_names() -> list[str]:
    return [f"a{i}" for i in range(N_WIDE)]

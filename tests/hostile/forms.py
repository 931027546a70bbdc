"""Forms of the portal with what no browser would send; each must get a page, and none a failure."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from qserver.api.gate import TOKEN_COOKIE
from qserver.config import LOOPBACK
from qserver.portal.cookies import FORM_COOKIE, FORM_FIELD, form_token
from tests.hostile.inputs import MANY
from tests.hostile.stage import Stage
from tests.hostile.trial import TIMEOUT_S, Trial

_COOKIE = "A" * 22
_PEOPLE = "/portal/datasets/people"
Fields = list[tuple[str, str]]


@dataclass(frozen=True)
class HostileForm:
    """Fields, and the page that they are sent to; `GET` has them in its address."""

    name: str
    method: str
    path: str
    fields: Fields


def hostile_forms(model: str) -> tuple[HostileForm, ...]:
    """Every form of this file, for `people` and a network of it."""
    return (*_of_questions(), *_of_models(model), *_of_places())


def _of_questions() -> Iterator[HostileForm]:
    for name, fields in _questions().items():
        for path in ("price", "ask"):
            yield HostileForm(f"{path}: {name}", "POST", f"{_PEOPLE}/{path}", fields)
        if len(urlencode(fields)) < 4000:
            yield HostileForm(f"answer: {name}", "GET", f"{_PEOPLE}/answer", fields)
            yield HostileForm(f"builder: {name}", "GET", _PEOPLE, fields)


def _of_models(model: str) -> Iterator[HostileForm]:
    for name, fields in _models().items():
        for path in ("price", "learn"):
            yield HostileForm(f"{path}: {name}", "POST", f"{_PEOPLE}/models/{path}", fields)
    page = f"{_PEOPLE}/models/{model}"
    for name, fields in _asked_of_models().items():
        yield HostileForm(f"model: {name}", "GET", page, fields)
    for value in ("-1", "0", "9" * 400, "1e9", "NaN", "٣", "", "1\r\nX: y"):
        for name in ("n", "seed"):
            place = f"{page}/records.csv"
            yield HostileForm(f"{name} {value[:9]!r}", "GET", place, [(name, value)])


def _of_places() -> Iterator[HostileForm]:
    for token in ("", "\0", "x" * 100_000, "qs_é_" + "y" * 40, "qs_" + "0" * 16 + "_" + "z" * 43):
        yield HostileForm(f"token {token[:9]!r}", "POST", "/portal/sign-in", [("token", token)])
    for place in ("%00", "..%2f..%2fetc", "a" * 3000, "<script>", "%ff"):
        for kind in ("datasets", "jobs"):
            path = f"/portal/{kind}/{quote(place, '%')}"
            yield HostileForm(f"{kind}: {place[:9]}", "GET", path, [])


def try_form(form: HostileForm, *, stage: Stage) -> Trial:
    """The page that a form gets, sent by a browser that is signed in."""
    proof = (FORM_FIELD, form_token(_COOKIE, stage.token))
    sent = urlencode([*form.fields, *([proof] if form.method == "POST" else [])])
    headers = {"Cookie": f"{TOKEN_COOKIE}={stage.token}; {FORM_COOKIE}={_COOKIE}"}
    path, body = form.path, None
    if form.method == "POST":
        headers |= {
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        }
        body = sent
    elif sent:
        path = f"{path}?{sent}"
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(LOOPBACK, stage.port, timeout=TIMEOUT_S)
    connection.request(form.method, path, body, headers)
    response = connection.getresponse()
    text = response.read().decode(errors="replace")
    connection.close()
    seconds = time.perf_counter() - begun
    fault = f"status {response.status}" if response.status >= 500 else ""
    if "<script>alert" in text:
        fault = "what was typed is part of the page"
    if response.status in (401, 403) and form.path != "/portal/sign-in":
        fault = "the form was not read"
    return Trial(form.name, "form", response.status, "", fault, seconds)


def _questions() -> dict[str, Fields]:
    numbers = ("NaN", "1e400", "-1", "0", "1/0", "9" * 4000, "٣", "1,,0", "\0", "1e-400")
    found: dict[str, Fields] = {f"length {n[:9]!r}": [("length", n)] for n in numbers}
    found |= {f"confidence {n[:9]!r}": [("confidence", n)] for n in numbers}
    found |= {f"age from {n[:9]!r}": [("from:age", n)] for n in numbers}
    texts = {
        "a script": "<script>alert(1)</script>",
        "a label with an override": "\u202eelameF",
        "brackets": "(" * 10_000,
        "JSON brackets": '{"where":' * 5000,
        "a long text": "SELECT " + "COUNT(*), " * 9000,
        "a list": "SELECT COUNT(*) FROM people WHERE age IN (" + ",".join(["20"] * 4000) + ")",
        "GROUP BY twice": "SELECT age, age, COUNT(*) FROM people GROUP BY age, age",
        "EXPLAIN EXPLAIN": "EXPLAIN EXPLAIN SELECT COUNT(*) FROM people",
        "a tight table": "SELECT age, sex, AVG(age) FROM people GROUP BY age, sex WITHIN 1e-9",
    }
    found |= {name: [("text", text)] for name, text in texts.items()}
    found["a script for a label"] = [("is:sex", "<script>alert(1)</script>")]
    found["twenty thousand labels"] = [("is:sex", "Male")] * 20_000
    found["other labels"] = [("is:sex", f"l{i}") for i in range(500)]
    found["fifty thousand fields"] = [(f"f{i}", "1") for i in range(MANY // 2)]
    found["ends swapped"] = [("from:age", "30"), ("to:age", "20")]
    return found


def _models() -> dict[str, Fields]:
    structures = {
        "no structure": "",
        "a circle": "sex > age\nage > sex",
        "an arrow of three": "sex > age > sex",
        "BIF of brackets": "{" * 100_000,
        "fifty thousand lines": "sex > age\n" * 50_000,
        "a script": "<script>alert(1)</script>",
        "a NUL": "sex > a\0ge",
    }
    found = {n: [("kind", "network"), ("structure", s)] for n, s in structures.items()}
    for number in ("NaN", "-1", "1e400", "9" * 4000, "1/3", ""):
        found[f"epsilon {number[:9]!r}"] = [("structure", "sex > age"), ("epsilon", number)]
    lists = {"many marginals": "age\n" * 20_000, "one of many": "age," * 20_000, "none": ","}
    found |= {n: [("kind", "marginals"), ("marginals", m)] for n, m in lists.items()}
    found["another kind"] = [("kind", "<script>alert(1)</script>"), ("structure", "sex > age")]
    return found


def _asked_of_models() -> dict[str, Fields]:
    return {
        "one name again and again": [("show", "age")] * 300,
        "what is given is asked": [("show", "age"), ("given:age", "20")],
        "a label that is none": [("show", "age"), ("given:sex", "<script>alert(1)</script>")],
        "a count of brackets": [("count", "(" * 2000)],
        "a count of JSON": [("count", '{"where": {"age": {"below": 1e400}}}')],
        "a count of another table": [("count", "SELECT COUNT(*) FROM wide WITHIN 5")],
    }

"""Random histories over HTTP, pages and the worker, each step chosen by a seed and by the replies.

Questions, tables, workloads, SQL in steps, models, prices, refusals, bad input and reading: what
an analyst can do. One process plays them: the app's test client, and the worker's own code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from tests.deployment import Deployment
from tests.growing import week
from worker.constants import WORKER
from worker.spending.spend import Spender

SEX = Attribute("sex", "labels", ("Female", "Male"), outside="drop", missing="drop")
DOMAIN = Domain(
    (Attribute("age", "integer", edges=tuple(map(Fraction, range(3))), outside="clamp"), SEX)
)
"""Four cells, and records that are in none."""
N_WEEKS = 3
WEEKS = Domain((Attribute("week", "period", periods=Periods("week", week(0), N_WEEKS)), SEX))
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
MOST_STEPS = 4
"""How often a statement is sent again to go on with its next step."""
_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')
_EXPIRES = re.compile(r"Expires=[^;]*; ")
"""When a cookie was deleted: a time that only the test client's library writes."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """One reply, with what it replied to."""

    asked: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str


@dataclass
class History:
    """One history on a deployment; `seen` is all that its analyst got.

    Args:
        seed: chooses every step, together with the replies so far.
        domains: of the datasets that are asked, by name.
        work: works off all waiting jobs.
        grow: called before the second step and each later one.
    """

    seed: str
    domains: dict[str, Domain]
    web: FlaskClient
    work: Callable[[], object]
    grow: Callable[[int], object] = lambda _step: None
    seen: list[Seen] = field(default_factory=list)
    asked: list[tuple[str, Document]] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)

    @cached_property
    def rng(self) -> random.Random:
        return random.Random(self.seed)

    def play(self, kinds: Sequence[str], n_steps: int) -> Iterator[None]:
        """So many steps of kinds in `STEPS`, one after each `next`."""
        for i in range(n_steps):
            if i:
                self.grow(i)
            dataset = self.rng.choice(sorted(self.domains))
            STEPS[self.rng.choice(kinds)](self, dataset)
            yield

    @property
    def faults(self) -> list[Seen]:
        """Replies that no question may get: a fault of the server, or a measurement that failed."""
        return [s for s in self.seen if s.status >= 500 or '"measurement_failed"' in s.body]

    # What is sent.

    def call(self, method: str, path: str, body: object = None, **form: str) -> TestResponse:
        """Send one request, and note the reply."""
        headers = {"X-Request-Id": f"request{len(self.seen)}"}
        more: dict[str, Any] = {"json": body} if isinstance(body, dict) else {"data": body}
        if form:
            token = self.form_token(path)
            headers, more = headers | SAME_ORIGIN, {"data": {"form_token": token, **form}}
        reply = self.web.open(path, method=method, headers=headers, buffered=True, **more)
        found = tuple(sorted((name, _EXPIRES.sub("", value)) for name, value in reply.headers))
        self.seen.append(
            Seen(f"{method} {path} {body} {form}", reply.status_code, found, reply.text)
        )
        return reply

    def form_token(self, path: str) -> str:
        page = self.web.get("/portal/datasets/" + path.split("/")[3], buffered=True).text
        found = _FORM_TOKEN.search(page)
        return found[1] if found else ""

    def spend(self, path: str, body: Document) -> TestResponse:
        """Send what may become a job, and go on until it has no further step."""
        reply = self.call("POST", path, body)
        for _ in range(MOST_STEPS):
            if reply.status_code != 202:
                break
            if (self.end(reply.headers["Location"]).json or {})["state"] == "failed":
                break
            reply = self.call("POST", path, body)
        return reply

    def end(self, job: str) -> TestResponse:
        """Work off what waits, and read how a job ended."""
        self.work()
        self.jobs.append(job)
        return self.call("GET", job)

    # What is asked.

    def where(self, dataset: str) -> Document:
        """A condition on some attributes."""
        chosen = [a for a in self.domains[dataset].attributes if self.rng.random() < 0.6]
        return {a.name: self._condition(a) for a in chosen}

    def _condition(self, attribute: Attribute) -> object:
        names = list(attribute.value_names)
        some = sorted(self.rng.sample(range(len(names)), self.rng.randint(1, len(names))))
        if self.rng.random() < 0.3:
            return {"weights": {names[i]: self.rng.choice([-1, 0.5, 1, 2]) for i in some}}
        return [names[i] for i in some]

    def requirement(self) -> Document:
        return {
            "length": self.rng.choice([400, 200, 100, 60, 40, 25, 10]),
            "confidence": self.rng.choice([0.5, 0.8, 0.95, 0.99]),
        }

    def question(self, dataset: str) -> Document:
        """A new question, or one that was asked before, now for a shorter interval."""
        before = [body for name, body in self.asked if name == dataset]
        if before and self.rng.random() < 0.4:
            old = self.rng.choice(before)
            return {**old, "length": round(old["length"] * self.rng.choice([0.9, 0.5, 0.2]), 6)}
        return {"query": {"where": self.where(dataset)}, **self.requirement()}

    def ask(self, dataset: str) -> None:
        body = self.question(dataset)
        self.asked.append((dataset, body))
        self.spend(f"/v1/datasets/{dataset}/query", body)

    def at_once(self, dataset: str) -> None:
        """Several questions that wait for the worker together."""
        locations = []
        for _ in range(3):
            body = self.question(dataset)
            self.asked.append((dataset, body))
            reply = self.call("POST", f"/v1/datasets/{dataset}/query", body)
            locations += reply.headers.getlist("Location")
        self.work()
        for job in locations:
            self.end(job)

    def explain(self, dataset: str) -> None:
        self.call("POST", f"/v1/datasets/{dataset}/explain", self.question(dataset))

    def probability(self, dataset: str) -> None:
        query = {"where": self.where(dataset)}
        low = self.rng.randint(-10, 300)
        body: Document = {"query": query, "at_least": low}
        if self.rng.random() < 0.5:
            body = {"query": query, "between": [low, low + self.rng.randint(1, 100)]}
        self.call("POST", f"/v1/datasets/{dataset}/probability", body)

    def workload(self, dataset: str) -> None:
        # Of plain counts: plans of many weighted questions take seconds.
        same, attributes = self.requirement(), self.domains[dataset].attributes
        wheres = [
            {one.name: [self.rng.choice(one.value_names)]}
            for one in self.rng.choices(attributes, k=self.rng.randint(2, 3))
        ]
        questions = [{"query": {"where": where}, **same} for where in wheres]
        body = {"questions": questions, "simultaneous": self.rng.random() < 0.4}
        if self.rng.random() < 0.5:
            self.call("POST", f"/v1/datasets/{dataset}/workload/explain", body)
        self.spend(f"/v1/datasets/{dataset}/workload", body)

    def sql(self, dataset: str) -> None:
        self._state(dataset, _statements(self.domains[dataset].names))

    def average(self, dataset: str) -> None:
        """A statement of several steps: a rough count decides how exactly the sum is measured."""
        self._state(dataset, [text for text in STATEMENTS if "AVG" in text])

    def _state(self, dataset: str, texts: Sequence[str]) -> None:
        text = self.rng.choice(texts).format(
            d=dataset,
            n=self.rng.choice([5, 20, 60, 150]),
            small=self.rng.choice([0.2, 0.5, 1]),
            base=self.rng.choice([50, 100, 300]),
        )
        if self.rng.random() < 0.3:
            self.call("POST", f"/v1/datasets/{dataset}/sql", {"sql": f"EXPLAIN {text}"})
        self.spend(f"/v1/datasets/{dataset}/sql", {"sql": text})

    def model(self, dataset: str) -> None:
        """Learn a model, and use one that is there."""
        names = list(self.domains[dataset].names)
        models = f"/v1/datasets/{dataset}/models"
        body: Document = {"kind": "marginals", "marginals": [names]}
        if len(names) > 1 and self.rng.random() < 0.7:
            edges = {"edges": [names[:2]]}
            allocation = self.rng.choice(["best", "arxiv", "icml", "equal"])
            body = {"kind": "network", "network": edges, "allocation": allocation}
        body["epsilon"] = self.rng.choice([0, 0.05, 0.2, 0.5])
        self.call("POST", f"{models}/explain", body)
        reply = self.call("POST", models, body)
        if reply.status_code == 202:
            self.end(reply.headers["Location"])
        found = self.call("GET", models).json or {}
        for one in found.get("models", [])[-1:]:
            at = f"{models}/{one['id']}"
            self.call("GET", at)
            self.call("POST", f"{at}/query", {"count": {"where": self.where(dataset)}})
            self.call("GET", f"{at}/sample?n=5&seed={self.rng.randrange(100)}")
            self.call("GET", f"{at}/export")
            self.call("GET", f"/portal/datasets/{dataset}/models/{one['id']}")

    def refused(self, dataset: str) -> None:
        """What no limit pays for."""
        body = {"query": {"where": self.where(dataset)}, "length": 1e-5, "confidence": 0.999}
        self.spend(f"/v1/datasets/{dataset}/query", body)
        self.spend(f"/v1/datasets/{dataset}/workload", {"questions": [body, body]})

    def wrong(self, dataset: str) -> None:
        """Bad input."""
        path, body = self.rng.choice(WRONG)
        self.call("POST", f"/v1/datasets/{dataset}/{path}", body)
        if self.asked:
            self.call("POST", f"/v1/datasets/nowhere/{path}", self.asked[-1][1])

    def read(self, dataset: str) -> None:
        """What there is to read without asking anything."""
        at = f"/v1/datasets/{dataset}"
        for path in self.rng.sample(
            [
                *("/v1/datasets", at, f"{at}/history", f"{at}/ledger", f"{at}/spending"),
                *("/v1/audit", f"{at}/audit", f"{at}/history/0", f"{at}/models", "/readyz"),
            ],
            4,
        ):
            self.call("GET", path)

    def pages(self, dataset: str) -> None:
        at = f"/portal/datasets/{dataset}"
        paths = ["/portal/", "/portal/jobs", at, f"{at}/history", f"{at}/history.csv"]
        paths += [f"{at}/{one}" for one in ("budget", "models", "saved", "charges", "charges.csv")]
        paths += [f"/portal/jobs/{job.split('/')[-1]}" for job in self.jobs]
        for path in self.rng.sample(paths, 3):
            self.call("GET", path)

    def form(self, dataset: str) -> None:
        """The builder's form: its price, the question, and the page of its job."""
        at, fields = f"/portal/datasets/{dataset}", {"length": "50", "confidence": "95"}
        attribute = self.rng.choice(self.domains[dataset].attributes)
        if attribute.kind == "labels":
            fields[f"is:{attribute.name}"] = self.rng.choice(attribute.value_names)
        self.call("POST", f"{at}/price", **fields)
        location = self.call("POST", f"{at}/ask", **fields).headers.get("Location")
        self.work()
        if location is not None:
            self.call("GET", location)


def work_off(town: Deployment, spender: Spender) -> None:
    """Work off all waiting jobs, in groups as large as they come."""
    writer, population = town.writer(), town.meta.population
    while (first := writer.queue.take([population], consumer="test", block_ms=None)) is not None:
        lease = writer.acquire(population)
        assert lease is not None
        spender.settle(lease)
        left = [first, *writer.queue.more(population, consumer="test", most=WORKER.group_jobs - 1)]
        while left:
            left = spender.work(lease, left)
        writer.release(lease)


STEPS: dict[str, Callable[[History, str], None]] = {
    "ask": History.ask,
    "at once": History.at_once,
    "explain": History.explain,
    "probability": History.probability,
    "workload": History.workload,
    "sql": History.sql,
    "average": History.average,
    "model": History.model,
    "refused": History.refused,
    "wrong": History.wrong,
    "read": History.read,
    "pages": History.pages,
    "form": History.form,
}
STATEMENTS = (
    "SELECT COUNT(*) FROM {d} WHERE age < 2 WITHIN {n} CONFIDENCE 0.9",
    "SELECT sex, COUNT(*), SUM(age) WITHIN {n} FROM {d} GROUP BY sex WITHIN {n} CONFIDENCE 0.9",
    "SELECT AVG(age) FROM {d} WITHIN {small} CONFIDENCE 0.9 ASSUMING AT LEAST {base}",
    "SELECT sex, AVG(age) AS m FROM {d} GROUP BY sex WITHIN {small} ASSUMING AT LEAST {base}",
    "SELECT MEDIAN(age) FROM {d} WITHIN {small} CONFIDENCE 0.9 ASSUMING AT LEAST {base}",
    "SELECT MIN(age), MAX(age) FROM {d} WITHIN {n} CONFIDENCE 0.9",
    "SELECT COUNT(DISTINCT age) FROM {d} WITHIN {n} CONFIDENCE 0.9",
    "SELECT STDDEV_POP(age) AS s FROM {d} WITHIN {small} CONFIDENCE 0.9 ASSUMING AT LEAST {base}",
    "SELECT COUNT_IF(sex = 'Female') / COUNT(*) FROM {d} WITHIN 0.3 ASSUMING AT LEAST {base}",
    "SELECT age, COUNT(*) FROM {d} GROUP BY age WITHIN {n} CONFIDENCE 0.9 SIMULTANEOUS",
    "SELECT sex, COUNT(*) AS n FROM {d} GROUP BY sex HAVING COUNT(*) > {base} WITHIN {n}",
    "SELECT age, COUNT(*) AS n FROM {d} GROUP BY age ORDER BY n DESC LIMIT 1 WITHIN {n}",
    "SELECT COUNT(*) FROM {d} WITHIN {n} CONFIDENCE 0.9",
    "SELECT week, COUNT(*) FROM {d} GROUP BY week WITHIN {n} CONFIDENCE 0.9",
    "SELECT week, sex, COUNT(*) FROM {d} GROUP BY week, sex WITHIN {n} CONFIDENCE 0.9",
)


def _statements(names: Sequence[str]) -> list[str]:
    """Those about these attributes."""
    others = {"age", "sex", "week"} - set(names)
    return [text for text in STATEMENTS if not any(name in text for name in others)]


WRONG: tuple[tuple[str, object], ...] = (
    ("query", {"query": {"where": {"nothing": 1}}, "length": 5, "confidence": 0.9}),
    ("query", {"query": {"where": {"sex": "Nobody"}}, "length": 5, "confidence": 0.9}),
    ("query", {"query": {"where": {}}, "length": -5, "confidence": 0.9}),
    ("query", {"query": {"where": {}}, "length": 5, "confidence": 1.5}),
    ("query", {"query": {"where": {}}}),
    ("query", b"{not json"),
    ("workload", {"questions": []}),
    ("explain", {"length": 5}),
    ("sql", {"sql": "SELECT EXP(age) FROM people"}),
    ("sql", {"sql": "DROP TABLE people"}),
    ("models", {"kind": "oracle", "epsilon": 1}),
    ("probability", {"query": {"where": {}}, "between": [3, 1]}),
)

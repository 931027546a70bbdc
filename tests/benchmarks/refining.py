"""How many paid answers are longer than asked, before and after they are refined, and at what cost.

In small towns, of 500 people, two tables were bought before, so that released answers disagree as
much as they can. Half of their questions are single counts, half are tables of SQL. Cities
of 20,000 people get streams from nothing: ranges of one attribute, boxes of three, and both mixed
with tables. Everything is real but the HTTP.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from qserver.errors import NotFoundError
from qserver.query.domain import Attribute, Domain
from qserver.query.question import AnyAsked, Question
from qserver.query.requirement import DEFAULT_PHI
from qserver.records.answer import Answer, AnyAnswer, JobStatus, WorkloadAnswer
from qserver.service.statements import Statements
from qserver.storage.encoding.jobs import JobRecord, answer_from_json
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.keys import all_rounds
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.deployment import Deployment

from .tables import Report

SEED = 36_006
N_TOWNS, N_ASKED = 60, 6
_MET = 1 + 1e-6
_KEYS = ("age", "sex", "age, sex")
N_PEOPLE, N_CITIES, N_STREAM = 20_000, 4, 100
_AGES, _REGIONS = 100, tuple(f"region {i}" for i in range(20))
CITY = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(_AGES + 1))), outside="clamp"),
        Attribute("sex", "labels", ("Female", "Male")),
        Attribute("region", "labels", _REGIONS),
    )
)


@dataclass(frozen=True)
class Paid:
    """One paid question or table.

    Args:
        kind: `single` or `table`, or the stream that it is of.
        prices: of its rounds, the first for what was asked.
        worst: after each round the longest interval in parts of its asked length.
        holds: whether each of its last intervals has the true number.
    """

    kind: str
    prices: tuple[int, ...]
    worst: tuple[float, ...]
    holds: tuple[bool, ...]


def run(*, quick: bool) -> Report:
    """Shares of paid answers that are as short as asked, and what refining costs."""
    n_towns, n_cities, n_stream = (1, 1, 4) if quick else (N_TOWNS, N_CITIES, N_STREAM)
    found = [*paid(SEED, n_towns=n_towns)]
    for city in range(n_cities):
        found += paid_of_streams(f"{SEED} {city}", n=n_stream)
    return Report(
        name="refining",
        title="Paid answers that are longer than asked, before and after they are refined",
        parameters={
            "towns": n_towns,
            "asked in each": N_ASKED,
            "cities": n_cities,
            "asked in each, of each stream": n_stream,
            "seed": SEED,
        },
        rows=tuple(_row(kind, found) for kind in ("single", "table", *STREAMS)),
    )


def _row(kind: str, everything: Sequence[Paid]) -> dict[str, str | int | float | None]:
    found = [one for one in everything if one.kind == kind]
    refined = [held for one in found if len(one.prices) > 1 for held in one.holds]
    first, more = sum(one.prices[0] for one in found), sum(sum(one.prices[1:]) for one in found)
    return {
        "asked": kind,
        "paid": len(found),
        "longer as drawn": sum(one.worst[0] > _MET for one in found),
        "longer once refined": sum(one.worst[-1] > _MET for one in found),
        "spent on it, percent": round(100 * more / max(first, 1), 2),
        "refined intervals": len(refined),
        "of them hold": round(sum(refined) / len(refined), 3) if refined else None,
    }


def paid(seed: int, *, n_towns: int) -> Iterator[Paid]:
    """All that is paid for in so many towns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.start(Path(folder) / "store") as server,
    ):
        for town in range(n_towns):
            path = Path(folder) / f"town {town}"
            path.mkdir()
            made = Deployment.make(path, server.url, limit="100000")
            yield from _asked(made, random.Random(f"{seed} {town}"))
            Store.open(made.settings).client.flushall()


def _asked(town: Deployment, draw: random.Random) -> Iterator[Paid]:
    for key in draw.sample(_KEYS, 2):
        _table(town, f"SELECT {key}, COUNT(*) FROM people GROUP BY {key}", draw.randrange(15, 60))
    for _ in range(N_ASKED):
        if draw.random() < 0.5:
            found = _single(town, draw)
        else:
            low = draw.randrange(20, 29)
            where = draw.choice(
                ["", f"WHERE age BETWEEN {low} AND {draw.randrange(low, 30)}", "WHERE sex = 'Male'"]
            )
            key = draw.choice(_KEYS)
            text = f"SELECT {key}, COUNT(*) FROM people {where} GROUP BY {key}"
            found = _table(town, text, draw.randrange(6, 60))
        if found is not None:
            yield found


def _single(town: Deployment, draw: random.Random) -> Paid | None:
    low = draw.randrange(20, 29)
    where: dict[str, object] = {"age": {"between": [low, draw.randrange(low, 30)]}}
    if draw.random() < 0.5:
        where["sex"] = draw.choice(["Female", "Male"])
    return _count(town, where, length=draw.randrange(12, 120), kind="single")


def _count(town: Deployment, where: dict[str, object], *, length: float, kind: str) -> Paid | None:
    found = town.submit(where, length=length)
    return _worked(town, found.id, kind) if isinstance(found, JobStatus) else None


def _table(town: Deployment, text: str, half: int, *, kind: str = "table") -> Paid | None:
    statements = Statements(town.service())
    found = statements.run("people", f"{text} WITHIN {half} ONLY THIS", wait_s=0)
    return _worked(town, found.id, kind) if isinstance(found, JobStatus) else None


def paid_of_streams(seed: str, *, n: int) -> Iterator[Paid]:
    """All that is paid for in one city, of so many questions of each stream."""
    draw = random.Random(f"{seed} people")
    people = [
        (int(_AGES * draw.random() * draw.random()), draw.choice(CITY.attributes[1].labels), region)
        for region in draw.choices(_REGIONS, weights=range(1, len(_REGIONS) + 1), k=N_PEOPLE)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.start(Path(folder) / "store") as server,
    ):
        for stream, asked in STREAMS.items():
            path = Path(folder) / stream
            path.mkdir()
            city = Deployment.make(
                path, server.url, limit="100000", rows=people, domain=CITY, phi=DEFAULT_PHI
            )
            rng = random.Random(f"{seed} {stream}")
            found = [asked(city, rng, stream) for _ in range(n)]
            yield from (one for one in found if one is not None)
            Store.open(city.settings).client.flushall()


def _range(city: Deployment, draw: random.Random, stream: str) -> Paid | None:
    low, high = sorted(draw.sample(range(_AGES), 2))
    where: dict[str, object] = {"age": {"between": [low, high]}}
    return _count(city, where, length=draw.choice([100, 200, 400]), kind=stream)


def _box(city: Deployment, draw: random.Random, stream: str) -> Paid | None:
    low, high = sorted(draw.sample(range(_AGES), 2))
    where: dict[str, object] = {
        "age": {"between": [low, high]},
        "region": draw.sample(_REGIONS, draw.randint(2, 10)),
    }
    if draw.random() < 0.5:
        where["sex"] = draw.choice(CITY.attributes[1].labels)
    return _count(city, where, length=draw.choice([200, 400]), kind=stream)


def _mixed(city: Deployment, draw: random.Random, stream: str) -> Paid | None:
    if draw.random() < 0.7:
        return draw.choice([_range, _box])(city, draw, stream)
    key = draw.choice(["age", "sex", "region", "sex, region", "age, sex"])
    low, high = sorted(draw.sample(range(_AGES), 2))
    where = draw.choice(["", f"WHERE age BETWEEN {low} AND {high}", "WHERE sex = 'Male'"])
    text = f"SELECT {key}, COUNT(*) FROM people {where} GROUP BY {key}"
    return _table(city, text, draw.choice([50, 100, 200]), kind=stream)


STREAMS: dict[str, Callable[[Deployment, random.Random, str], Paid | None]] = {
    "ranges": _range,
    "boxes": _box,
    "mixed": _mixed,
}


def _worked(town: Deployment, job: str, kind: str) -> Paid | None:
    town.work_off()
    store, charged, worst = Store.open(town.settings), [0], list[float]()
    holds, [table] = list[bool](), town.trusted().tables.values()
    for one in all_rounds(job):
        record = _done(store, one)
        if record is None or record.result is None:
            break
        answer = answer_from_json(record.result)
        charged.append(answer.charged_nano)
        asked = Request.from_json(record.request).asked
        worst.append(_worst(asked, answer))
        holds = [
            found.low <= table.answer(question.query) <= found.high
            for question, found in _pairs(asked, answer)
        ]
    prices = tuple(after - before for before, after in pairwise(charged))
    return Paid(kind, prices, tuple(worst), tuple(holds)) if prices and prices[0] else None


def _done(store: Store, job: str) -> JobRecord | None:
    try:
        found = store.own_job(job)
    except NotFoundError:
        return None
    return found if found.state == "done" else None


def _worst(asked: AnyAsked, answer: AnyAnswer) -> float:
    return max((a.high - a.low) / q.requirement.length for q, a in _pairs(asked, answer))


def _pairs(asked: AnyAsked, answer: AnyAnswer) -> list[tuple[Question, Answer]]:
    answers = answer.answers if isinstance(answer, WorkloadAnswer) else (answer,)
    pairs = zip(asked.questions, answers, strict=True)
    return [(question, one) for question, one in pairs if isinstance(one, Answer)]

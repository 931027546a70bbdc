"""What users ask of Adult and of flights with dates: counts, tables, averages, medians."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qserver.cli.local.demo import adult_demo, weekly_demo

from .faces import Count

LENGTH, _LOOSE = 400.0, 4_000.0
_AGES, _HOURS, _WEEKS = (17, 90), (1, 99), range(2, 10)
_LABELS: Mapping[str, tuple[str, ...]] = {
    "sex": ("Female", "Male"),
    "race": ("White", "Black", "Asian-Pac-Islander", "Other"),
    "income": ("<=50K", ">50K"),
    "education": ("HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"),
    "workclass": ("Private", "State-gov", "Self-emp-inc", "Local-gov"),
}
_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_DELAYS = ((-60, 29), (0, 59), (15, 119), (30, 239), (60, 1439))


@dataclass(frozen=True)
class Data:
    """A dataset, and what its users ask.

    Args:
        attach: arguments of the worker's command.
        sizes: how many counts were paid for.
        paid: makes a random count on several attributes.
        free: makes a count that follows from the first of `statements`.
        statements: SQL by name; the last is a dashboard of several.
    """

    name: str
    attach: tuple[str, ...]
    sizes: tuple[int, ...]
    paid: Callable[[random.Random], Count]
    free: Callable[[random.Random], Count]
    statements: Mapping[str, tuple[str, ...]]


def _between(generator: random.Random, ends: tuple[int, int]) -> tuple[int, int]:
    low, high = sorted(generator.sample(range(ends[0], ends[1] + 1), 2))
    return low, high


def _of_adult(generator: random.Random) -> Count:
    low, high = _between(generator, _AGES)
    least, most = _between(generator, _HOURS)
    name = generator.choice(sorted(_LABELS))
    label = generator.choice(_LABELS[name])
    where = {"age": {"between": [low, high]}, name: label}
    text = f"age BETWEEN {low} AND {high} AND {name} = '{label}'"
    if generator.random() < 0.5:
        where["hours-per-week"] = {"between": [least, most]}
        text += f' AND "hours-per-week" BETWEEN {least} AND {most}'
    return Count(where, text, LENGTH)


def _by_age_and_sex(generator: random.Random) -> Count:
    (low, high), sex = _between(generator, _AGES), generator.choice(_LABELS["sex"])
    where = {"age": {"between": [low, high]}, "sex": sex}
    return Count(where, f"age BETWEEN {low} AND {high} AND sex = '{sex}'", _LOOSE)


def _weeks(generator: random.Random) -> tuple[dict[str, Any], str]:
    low, high = sorted(generator.choices(_WEEKS, k=2))
    ends = [f"2013-W{week:02}" for week in (low, high)]
    return {"between": ends}, f"week BETWEEN '{ends[0]}' AND '{ends[1]}'"


def _of_flights(generator: random.Random) -> Count:
    (weeks, text), (low, high) = _weeks(generator), generator.choice(_DELAYS)
    chosen = sorted(generator.sample(_CARRIERS, generator.randint(1, 4)))
    where = {"week": weeks, "delay": {"between": [low, high]}, "carrier": chosen}
    text += f" AND delay BETWEEN {low} AND {high} AND carrier IN {_listed(chosen)}"
    if generator.random() < 0.5:
        where["origin"] = generator.choice(("EWR", "JFK", "LGA"))
        text += f" AND origin = '{where['origin']}'"
    return Count(where, text, LENGTH)


def _by_week_and_origin(generator: random.Random) -> Count:
    (weeks, text), chosen = _weeks(generator), sorted(generator.sample(("EWR", "JFK", "LGA"), 2))
    where = {"week": weeks, "origin": chosen}
    return Count(where, f"{text} AND origin IN {_listed(chosen)}", _LOOSE)


def _listed(labels: Sequence[str]) -> str:
    return "(" + ", ".join(f"'{label}'" for label in labels) + ")"


def adult() -> Data:
    first = "SELECT age, sex, COUNT(*) AS n FROM adult GROUP BY age, sex WITHIN 50"
    average = 'SELECT sex, AVG("hours-per-week") AS x FROM adult GROUP BY sex WITHIN 1'
    median = "SELECT sex, MEDIAN(age) AS x FROM adult GROUP BY sex WITHIN 2"
    top = (
        "SELECT education, COUNT(*) AS n FROM adult GROUP BY education"
        " ORDER BY n DESC LIMIT 3 WITHIN 50"
    )
    share = (
        "SELECT sex, AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS x"
        " FROM adult GROUP BY sex WITHIN 0.05"
    )
    cube = (
        "SELECT sex, race, income, COUNT(*) AS n FROM adult GROUP BY CUBE(sex, race, income)"
        " WITHIN 60"
    )
    statements = {
        "GROUP BY age, sex": (first,),
        "AVG by sex": (average,),
        "MEDIAN by sex": (median,),
        "top 3 of education": (top,),
        "EXPLAIN of 148": (f"EXPLAIN {first.replace('WITHIN 50', 'WITHIN 20')}",),
        "CUBE of three": (cube,),
        "MAX by sex": ("SELECT sex, MAX(age) AS x FROM adult GROUP BY sex WITHIN 5",),
        "dashboard of 5": (first, average, median, top, share),
    }
    return Data(
        "adult", adult_demo().attach, (50, 500, 5_000), _of_adult, _by_age_and_sex, statements
    )


def flights(folder: Path) -> Data:
    demo = weekly_demo(folder)
    first = "SELECT week, origin, COUNT(*) AS n FROM flights GROUP BY week, origin WITHIN 50"
    late = (
        "SELECT week, COUNT(*) AS n FROM flights WHERE delay BETWEEN 60 AND 1439"
        " GROUP BY week WITHIN 25"
    )
    share = (
        "SELECT origin, AVG(CASE WHEN delay BETWEEN 60 AND 1439 THEN 1 ELSE 0 END) AS x"
        " FROM flights GROUP BY origin WITHIN 0.05"
    )
    top = (
        "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"
        " ORDER BY n DESC LIMIT 3 WITHIN 100"
    )
    statements = {
        "GROUP BY week, origin": (first,),
        "GROUP BY week, late": (late,),
        "share late by origin": (share,),
        "dashboard of 4": (first, late, share, top),
    }
    return Data("flights", demo.attach, (50, 500), _of_flights, _by_week_and_origin, statements)

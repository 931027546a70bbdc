"""The demonstration data: the Adult records, flights week by week, and their public domains.

The records are public, so the online side may name the files and deal out the weeks.
`data/ATTRIBUTION.md` has their source, authors, licence and changes.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

N_ADULT_RECORDS = 32_561
N_FLIGHTS = 75_623
SEALED_AT_FIRST: Final = "2013-W09"
"""Of the weeks 2013-W02 to 2013-W13."""

CAPACITY: Final = 10_000


@dataclass(frozen=True)
class Demo:
    """A dataset that `qserver demo` serves.

    Args:
        attach: options of `qserver-worker attach`, without name and limit.
        in_words: the question; the same is `question` for the HTTP `route`, `command`, and `sql`.
    """

    dataset: str
    title: str
    attach: tuple[str, ...]
    in_words: str
    route: str
    question: Mapping[str, Any]
    command: str
    sql: str


def adult_demo() -> Demo:
    """The Adult records."""
    return Demo(
        "adult",
        "UCI Adult",
        ("--data", str(adult_csv()), "--domain", str(adult_domain())),
        "How many women are 30 to 39 years old? An interval of length 100, 95 percent sure:",
        "query",
        {
            "query": {"where": {"age": {"between": [30, 39]}, "sex": "Female"}},
            "length": 100,
            "confidence": 0.95,
        },
        "query adult --where age=30..39 --where sex=Female --length 100",
        "SELECT COUNT(*) AS n FROM adult WHERE age BETWEEN 30 AND 39 AND sex = 'Female' WITHIN 50",
    )


def weekly_demo(folder: Path) -> Demo:
    """Flights from New York, of which the first weeks are sealed at first.

    Args:
        folder: gets a file per week that can be appended, and one with the weeks before.
    """
    first = deal_weeks(folder)
    sql = (
        "SELECT week, COUNT(*) FROM flights WHERE delay BETWEEN 60 AND 1439 GROUP BY week WITHIN 25"
    )
    return Demo(
        "flights",
        "flights from New York, week by week",
        (
            *("--data", str(first), "--domain", str(_data_file("flights-domain.json"))),
            *("--to", SEALED_AT_FIRST, "--capacity", str(CAPACITY), "--records-per-person", "1"),
        ),
        "How many flights left an hour late or more, each week? Within 25, 95 percent sure:",
        "sql",
        {"sql": sql},
        f'sql "{sql}"',
        sql,
    )


def deal_weeks(folder: Path) -> Path:
    """Write a file per week that is not sealed at first, such as `2013-W10.csv`.

    Returns:
        The file of the weeks before, which is attached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(_data_file("flights.csv.gz"), "rt", encoding="ascii") as lines:
        header, *records = lines
    dealt: dict[str, list[str]] = {}
    for record in records:
        year, week, _ = date.fromisoformat(record.split(",", 1)[0]).isocalendar()
        name = f"{year}-W{week:02}"
        part = f"until-{SEALED_AT_FIRST}" if name <= SEALED_AT_FIRST else name
        dealt.setdefault(part, [header]).append(record)
    for part, held in dealt.items():
        (folder / f"{part}.csv").write_text("".join(held), encoding="ascii")
    return folder / f"until-{SEALED_AT_FIRST}.csv"


def next_week(folder: Path, sealed: str) -> tuple[str, Path] | None:
    """The week after the last sealed one with its file; None where all are sealed."""
    ahead = sorted(p for p in folder.glob("2*.csv") if p.stem > sealed)
    return (ahead[0].stem, ahead[0]) if ahead else None


def adult_csv() -> Path:
    """Path of the Adult records: gzip-compressed CSV with a header of 15 names, `?` for missing.

    The survey weight `fnlwgt` is its only column that is not in the domain.
    """
    return _data_file("adult.csv.gz")


def adult_domain() -> Path:
    """Path of the domain of 14 attributes, which contains every Adult record."""
    return _data_file("adult-domain.json")


def adult_attribution() -> Path:
    """Path of the text with the data's source, authors, licence and changes."""
    return _data_file("ATTRIBUTION.md")


def _data_file(name: str) -> Path:
    return Path(str(files("qserver"))) / "data" / name

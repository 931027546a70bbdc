"""Tables for sources, and one way to put each of them into every kind that needs no server."""

from __future__ import annotations

import datetime as dt
import gzip
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from qserver.query.calendar import Periods
from qserver.query.domain import Attribute, Domain
from worker.sources.address import Address

DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(0, 101, 10))), outside="clamp"),
        Attribute("sex", "labels", ("Female", "Male"), outside="other", missing="other"),
        Attribute("dose", "real", edges=tuple(Fraction(i, 10) for i in range(11)), missing="other"),
        Attribute("day", "period", periods=Periods("week", "2024-W10", 8)),
        Attribute("insured", "labels", ("true", "false"), outside="other", missing="other"),
    )
)
NAMES = ("age", "sex", "dose", "day", "insured", "person", "unused")
Row = tuple[Any, ...]


def random_rows(seed: int, n: int) -> list[Row]:
    """Rows whose values are inside the domain, outside it, or missing."""
    rng = random.Random(seed)
    return [
        (
            rng.choice([None, rng.randrange(-5, 120)]),
            rng.choice(["Female", "Male", " Male ", "männlich", "", None]),
            rng.choice([None, round(rng.uniform(-0.1, 1.1), 3), 0.1, 0.30000000000000004]),
            rng.choice([None, dt.date(2024, 3, 1) + dt.timedelta(rng.randrange(70))]),
            rng.choice([True, False, None]),
            rng.choice(["", f"p{rng.randrange(n)}"]),
            "x" * rng.randrange(5),
        )
        for _ in range(n)
    ]


def as_csv(path: Path, rows: Sequence[Row], *, mark: str = ",") -> Address:
    """A file whose texts are quoted."""

    def text(value: object) -> str:
        if value is None:
            return ""
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        return '"' + shown.replace('"', '""') + '"'

    lines = [mark.join(NAMES), *(mark.join(map(text, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Address(str(path))


def as_sqlite(path: Path, rows: Sequence[Row]) -> Address:
    """A table `visits`; SQLite has no type of truth values, so they are texts."""
    plain = [
        tuple(
            str(v).lower()
            if isinstance(v, bool)
            else v.isoformat()
            if isinstance(v, dt.date)
            else v
            for v in row
        )
        for row in rows
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE visits ({', '.join(NAMES)})")
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"INSERT INTO visits VALUES ({marks})", plain)
        connection.commit()
    return Address(f"sqlite:///{path}", table="visits")


COLUMNS = (
    "age INTEGER, sex VARCHAR, dose DOUBLE PRECISION, day DATE, insured BOOLEAN, person VARCHAR, "
    "unused VARCHAR"
)


def as_duckdb(path: Path, rows: Sequence[Row]) -> Address:
    """A table `visits`."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE visits ({COLUMNS})")
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"INSERT INTO visits VALUES ({marks})", rows)
    return Address(f"duckdb:///{path}", table="visits")


def as_parquet(path: Path, rows: Sequence[Row]) -> Address:
    """One file."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE visits ({COLUMNS})")
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"INSERT INTO visits VALUES ({marks})", rows)
        connection.execute(f"COPY visits TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    return Address(str(path))


def as_folder(folder: Path, rows: Sequence[Row]) -> Address:
    """Two files, one of them in a folder below."""
    (folder / "more").mkdir(parents=True)
    half = len(rows) // 2
    as_parquet(folder / "a.parquet", rows[:half])
    as_parquet(folder / "more" / "b.parquet", rows[half:])
    (folder / "_SUCCESS").write_text("")
    (folder / "read.me").write_text("not data")
    return Address(str(folder))


def as_csv_folder(folder: Path, rows: Sequence[Row]) -> Address:
    """Three files, of other marks, one of them packed and one in a folder below."""
    (folder / "more").mkdir(parents=True)
    third = len(rows) // 3
    as_csv(folder / "a.csv", rows[:third], mark=";")
    as_csv(folder / "more" / "b.tsv", rows[third : 2 * third], mark="\t")
    packed = as_csv(folder / "c.csv", rows[2 * third :]).path
    (folder / "more" / "c.csv.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (folder / ".a.csv.crc").write_text("not data")
    (folder / "read.me").write_text("not data")
    return Address(str(folder))

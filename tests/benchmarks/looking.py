"""How often the interval of a number that was picked out holds, over HTTP with the worker's noise.

Each table has 64 groups of the same size, the case that is worst for the largest. Every table is
bought, looked at, and its largest group asked once more: at half the length, and with fresh noise.
Tables are about disjoint records, so their noises are independent. A standard error is that of the
stated confidence.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from qserver.client import Cell, Client, Interval, Selection
from qserver.config import LOOPBACK, Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .stack import attach, serving, working
from .tables import Report, Value

N_TABLES = 200
N_QUICK = 4
N_GROUPS = 64
COUNT = 3
HALF_WIDTH = 10
CONFIDENCE = 0.95
FEW = 5
_BY_ITSELF, _AS_LARGEST = "the largest, by itself", "the largest, as the largest of 64"


def run(*, quick: bool) -> Report:
    """Coverage and mean length by reading."""
    n_tables = N_QUICK if quick else N_TABLES
    held, lengths = Counter[str](), defaultdict[str, list[float]](list)
    with _running(n_tables) as client:
        for i in range(n_tables):
            for reading, intervals in _readings(client, f"batch {i}"):
                held[reading] += all(COUNT in interval for interval in intervals)
                lengths[reading] += [interval.length for interval in intervals]
    return Report(
        name="looking",
        title="Share of intervals of picked numbers that hold the truth",
        parameters={
            "tables": n_tables,
            "groups": N_GROUPS,
            "confidence": CONFIDENCE,
            "half_width": HALF_WIDTH,
            "noise": "the worker's, from the operating system",
        },
        rows=tuple(_row(reading, held[reading], lengths[reading], n_tables) for reading in lengths),
    )


def _readings(client: Client, batch: str) -> Iterator[tuple[str, list[Interval]]]:
    """Each reading of one new table, with the intervals that shall all hold."""
    text = (
        f"SELECT grp, COUNT(*) FROM equal WHERE batch = '{batch}' GROUP BY grp WITHIN {HALF_WIDTH}"
    )
    table = client.sql(text)
    [top] = table.largest()
    alone = table[top.key]
    assert isinstance(alone, Cell)
    yield _BY_ITSELF, [alone.interval]
    yield _AS_LARGEST, [top.interval]
    looked = [cell.after_looking for [cell] in table.cells]
    yield "all 64 at once", [found.at_once for found in looked if found is not None]
    few = client.sql(f"{text} AS LARGEST {FEW} OF {N_GROUPS}").largest(FEW)
    yield "the five largest, all at once", [picked.interval for picked in few]
    query = {"where": {"batch": batch, "grp": top.key[0]}}
    refined = client.query("equal", query, length=HALF_WIDTH, selected_from=Selection(N_GROUPS))
    again = client.query("equal", query, length=HALF_WIDTH)
    assert again.cost.charged == 0
    yield "refined to half the length, by itself", [again.interval]
    yield "refined to half the length, as the largest of 64", [refined.interval]
    fresh = client.query("equal", query, length=HALF_WIDTH, independent=True)
    yield "fresh noise at half the length", [fresh.interval]


def _row(reading: str, held: int, lengths: list[float], n: int) -> dict[str, Value]:
    return {
        "reading": reading,
        "tables": n,
        "share": f"{held / n:.3f}",
        "standard_error": f"{math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / n):.3f}",
        "mean_length": round(sum(lengths) / len(lengths), 2),
    }


@contextlib.contextmanager
def _running(n_tables: int) -> Iterator[Client]:
    """A client of a whole server on data of equal groups."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url, state_dir=folder / "state", slot_ms=0, open_access=True
        )
        _attach(settings, folder, n_tables)
        store = Store.open(settings)
        alive = lambda: store.worker_alive("equal")  # noqa: E731
        stack.enter_context(working(settings, log=folder / "worker.log", alive=alive))
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        yield Client(f"http://{LOOPBACK}:{site.port}")


def _attach(settings: Settings, folder: Path, n_tables: int) -> None:
    data, domain = folder / "equal.csv", folder / "equal.json"
    batches = [f"batch {i}" for i in range(n_tables)]
    groups = [f"group {j}" for j in range(N_GROUPS)]
    lines = [f"{batch},{group}\n" for batch in batches for group in groups] * COUNT
    data.write_text("batch,grp\n" + "".join(lines), encoding="utf-8")
    attributes = [
        {"name": name, "kind": "labels", "labels": labels}
        for name, labels in (("batch", batches), ("grp", groups))
    ]
    domain.write_text(json.dumps({"attributes": attributes}), encoding="utf-8")
    arguments = ("equal", "--data", str(data), "--domain", str(domain), "--limit", "1000")
    attach(settings, *arguments, log=folder / "attach.log")

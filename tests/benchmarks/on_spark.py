"""Codes on a local Spark beside those of one machine: `python -m tests.benchmarks.on_spark`.

Made-up records of seven columns, as `tests.benchmarks.reading` has them. It needs the extra `spark`
and Java 17.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from qserver.query.class_grid import product_partition
from tests.benchmarks.reading import DOMAIN, made, measured
from worker.private.present_content import read_where_it_stays
from worker.private.record_tables import Tables
from worker.private.spark_place import SparkPlace
from worker.private.truncation import PersonRule
from worker.sources.address import Address


def seconds(step: Callable[[], object]) -> float:
    """How long a step takes."""
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def counts(table: Tables, *, n: int) -> list[float]:
    """Seconds of counts by age and sex."""
    sizes = DOMAIN.sizes
    by_cell = product_partition(sizes, {0: list(range(sizes[0])), 1: list(range(sizes[1]))})
    return [seconds(lambda: table.counts(by_cell)) for _ in range(n)]


def main() -> None:
    """Print one line of JSON for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--most", type=int, help="records of each person that stay; without, all")
    parser.add_argument("--source", default="spark://local:2", help="the Spark")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = made("parquet", arguments.records, folder)
        alone = measured(data, folder, most=arguments.most)
        print(json.dumps({"one machine": alone}), flush=True)
        address = Address(arguments.source, query=f"SELECT * FROM parquet.`{data.text}`")
        person = None if arguments.most is None else PersonRule("person", arguments.most)
        begun, said = time.perf_counter(), dict[str, float]()

        def say(line: str) -> None:
            said[line[:30]] = round(time.perf_counter() - begun, 1)

        found = read_where_it_stays(
            address,
            DOMAIN,
            SparkPlace(str(folder / "codes"), 5.0),
            key=b"k" * 32,
            folder=folder,
            person=person,
            say=say,
            empty=False,
            as_it_is=False,
        )
        took = time.perf_counter() - begun
        first = counts(found.table, n=1)
        later = counts(found.table, n=5)
        stored = sum(p.stat().st_size for p in (folder / "codes").rglob("*.parquet"))
        told = {
            "records": found.n_records,
            "seconds": round(took, 1),
            "steps": said,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "first_count_s": round(first[0], 1),
            "count_s": round(statistics.median(later), 2),
            "codes_mb": stored >> 20,
            "fingerprint": found.fingerprint[:16],
            "is_equal": found.fingerprint[:16] == alone["fingerprint"],
        }
        print(json.dumps({"spark": told}), flush=True)


if __name__ == "__main__":
    main()

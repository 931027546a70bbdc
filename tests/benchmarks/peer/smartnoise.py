"""SmartNoise SQL on pandas: one reader for each epsilon, groups and small counts not censored."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas
import snsql

from tests.benchmarks.peer.asking import Ask, Rows, Statement, serve

COLUMNS = {
    "age": {"type": "int", "lower": 17, "upper": 90},
    "hours_per_week": {"type": "int", "lower": 1, "upper": 99},
    **{name: {"type": "string"} for name in ("sex", "income", "education", "race")},
}


def opened(path: str, n_records: int) -> Ask:
    """A table whose rows are persons, and whose groups are public."""
    table = {"row_privacy": True, "censor_dims": False, "clamp_counts": False, "rows": n_records}
    metadata = {"": {"us": {"adult": {**table, **COLUMNS}}}}
    records = pandas.read_csv(path, usecols=list(COLUMNS))

    @cache
    def reader_of(epsilon: float) -> Any:
        return snsql.from_df(records, privacy=snsql.Privacy(epsilon=epsilon), metadata=metadata)

    def ask(statement: Statement) -> tuple[Rows, float]:
        reader = reader_of(statement["epsilon_each"])
        text = statement["sql"].replace("FROM adult", "FROM us.adult")
        _, *rows = reader.execute(text)
        pairs = [(row[0] if statement["by"] else "", float(row[-1])) for row in rows]
        return pairs, float(reader.get_privacy_cost(text)[0])

    return ask


if __name__ == "__main__":
    serve(opened)

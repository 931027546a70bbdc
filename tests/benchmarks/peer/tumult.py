"""Tumult Analytics on a local Spark with one thread and one partition."""

from __future__ import annotations

import os
import sys
import tempfile

os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers import tmlt, too

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

from tests.benchmarks.peer.asking import Ask, Rows, Statement, serve

_ENOUGH = 1_000


def opened(path: str, _n_records: int) -> Ask:
    """A session in which one row more or less is private."""
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(dir=os.path.dirname(path)),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    records = spark.read.csv(path, header=True, inferSchema=True).coalesce(1).cache()
    session = Session.from_dataframe(
        privacy_budget=PureDPBudget(_ENOUGH),
        source_id="adult",
        dataframe=records,
        protected_change=AddOneRow(),
    )

    def ask(statement: Statement) -> tuple[Rows, float]:
        before = session.remaining_privacy_budget.value.expr
        query, by = QueryBuilder("adult"), statement["by"]
        if statement["conditions"]:
            query = query.filter(statement["conditions"])
        if by:
            query = query.groupby(KeySet.from_dict({by: statement["keys"]}))
        if statement["kind"] == "count":
            query = query.count()
        else:
            kind = "average" if statement["kind"] == "mean" else "median"
            query = getattr(query, kind)(statement["column"], *statement["bounds"])
        found = session.evaluate(query, PureDPBudget(statement["epsilon"])).collect()
        rows = [(row[by] if by else "", float(row[-1])) for row in found]
        return rows, float(before - session.remaining_privacy_budget.value.expr)

    return ask


if __name__ == "__main__":
    serve(opened)

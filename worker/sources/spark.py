"""The owner's existing Spark: sessions by their address, and tables or queries read batch by batch.

An address is `spark://HOST:PORT` or `spark-connect://HOST:PORT`. `spark://local` and
`spark://local:N`, with N cores, start one on this machine; `spark://yarn` takes the cluster that
the environment names. Spark is imported only here, when a session is opened.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from qserver.errors import ConfigError, PrivateDataError
from worker.constants import WORKER
from worker.sources.adbc import driver_module
from worker.sources.address import Address, resolved
from worker.sources.source import BY_QUERY, Column, Days, named, no_values_in_errors

NAME = "Spark"
_T = TypeVar("_T")

_SETTINGS = {
    # A scan must touch every record, so nothing may be left unread by what it holds.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    # As every other source does.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(WORKER.batch_records),
}
_OF_THIS_MACHINE = {
    "spark.app.name": "qserver-worker",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Its log quotes values that a job stumbles on, and would be on the owner's terminal.
    "spark.log.level": "OFF",
}


def open_session(address: Address) -> Any:
    """A session of the Spark of an address.

    Raises:
        ConfigError: pyspark or Java is missing, or a secret.
        PrivateDataError: it cannot be reached.
    """
    options = dict(option.split("=", 1) for option in address.options)
    secret = {key: resolved(value, quoted=False) for key, value in options.items()}
    # Its client's word on each new try is told once, in our words, where it fails.
    warnings.filterwarnings("ignore", module=r"pyspark\.")
    # The workers of a Spark on this machine run the same Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = resolved(address.text, quoted=True).partition("://")[2]
    open_ = _open_connect if address.kind == "spark-connect" else _open_classic
    return within(WORKER.spark_open_s, lambda: open_(where, secret))


def _open_classic(where: str, options: Mapping[str, str]) -> Any:
    module = driver_module("pyspark.sql", extra="spark")
    builder = module.SparkSession.builder.master(_master(where))
    for key, value in {**_OF_THIS_MACHINE, **options, **_SETTINGS}.items():
        builder = builder.config(key, value)
    with no_values_in_errors(NAME, words):
        return builder.getOrCreate()


def _master(where: str) -> str:
    """Spark's own name of a master."""
    host, _, cores = where.rstrip("/").partition(":")
    if host == "local":
        return f"local[{cores or '*'}]"
    return "yarn" if where == "yarn" else f"spark://{where}"


def _open_connect(where: str, options: Mapping[str, str]) -> Any:
    # The class itself: so it stands beside a session of the other kind.
    module = driver_module("pyspark.sql.connect.session", extra="spark")
    with no_values_in_errors(NAME, words):
        session = module.SparkSession.builder.remote(f"sc://{where}").create()
        # By default it tries for ten minutes, even when this process ends.
        policy = driver_module("pyspark.sql.connect.client.retries", extra="spark").DefaultPolicy
        session.client.set_retry_policies([policy(max_retries=WORKER.spark_retries)])
        for key, value in {**options, **_SETTINGS}.items():
            session.conf.set(key, value)
    return session


def close_session(session: Any) -> None:
    """Stop a session; a lost one is forgotten, so that the next open starts anew."""
    with suppress(Exception):
        within(WORKER.spark_close_s, session.stop)
    module = sys.modules.get("pyspark.core.context")
    if module is None or not hasattr(session, "sparkContext"):
        return
    with suppress(Exception):
        context = module.SparkContext
        gateway = context._gateway
        context._active_spark_context = context._gateway = context._jvm = None
        if gateway is not None:
            gateway.shutdown()


def within(seconds: float, step: Callable[[], _T]) -> _T:
    """The result of a step, if it comes within so many seconds: Spark waits for ever for a machine.

    Raises:
        PrivateDataError: it does not come.
    """
    found: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(step())
        except BaseException as exc:  # noqa: BLE001 - raised again below, in the caller's thread
            failed.append(exc)

    thread = threading.Thread(target=run, name="spark", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise PrivateDataError(f"{NAME} does not answer within {seconds:g} s.")
    return found[0]


def words(error: Exception) -> str:
    """Spark's name of a fault, without its message."""
    condition = str(getattr(error, "getCondition", lambda: "")() or "").partition(".")[0]
    if condition == "JAVA_GATEWAY_EXITED":
        raise ConfigError("source", "have Java 17 on this machine", hint=_JAVA)
    if condition in _CONDITIONS:
        return f"{_CONDITIONS[condition]} ({condition})."
    if type(error).__module__.startswith(("py4j", "grpc")) or isinstance(error, OSError):
        return "cannot be reached, or was lost."
    if "Grpc" in type(error).__name__ or "RetriesExceeded" in type(error).__name__:
        return "cannot be reached, or was lost."
    return f"broke the job off ({condition or type(error).__name__}); its own log says why."


_JAVA = "Install it, such as `apt-get install openjdk-17-jre-headless`, or use spark-connect://."
_CONDITIONS = {
    "TABLE_OR_VIEW_NOT_FOUND": "has no such table",
    "UNRESOLVED_COLUMN": "has no such column",
    "PATH_NOT_FOUND": "finds nothing at this path",
    "PARSE_SYNTAX_ERROR": "does not take the table or query",
    "UNSUPPORTED_DATATYPE": "has a column of a type that cannot be read",
}


class SparkTable:
    """A table or query of an open session."""

    def __init__(self, session: Any, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        self.session = session
        with no_values_in_errors(NAME, words):
            self._frame = (
                session.sql(address.query.strip().rstrip(";"))
                if address.query
                else session.table(address.table)
            )
            found = list(self._frame.dtypes)
        self.columns = named([Column(n, t, t in ("date", "timestamp")) for n, t in found])

    def n_rows(self) -> int | None:
        """None: only a job of its own would tell."""
        return None

    def frame(self, names: Sequence[str]) -> Any:
        """The columns of these names, in this order."""
        with no_values_in_errors(NAME, words):
            return self._frame.select(*["`" + name.replace("`", "``") + "`" for name in names])

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of one job, a partition of them at a time in memory."""
        del days
        yield from batches_of(self.frame(names))


def batches_of(frame: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a frame as batches, packed on Spark; a partition of them at a time in memory."""
    with no_values_in_errors(NAME, words):
        rows = frame.mapInArrow(_packed(), "batch binary").toLocalIterator()
    while True:
        with no_values_in_errors(NAME, words):
            row = next(rows, None)
            if row is None:
                return
            found = list(pa.ipc.open_stream(bytes(row[0])))
        yield from found


def _packed() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each batch as one row of bytes; runs on Spark, without this product."""

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            column = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([column], names=["batch"])

    return pack


@contextmanager
def open_spark(address: Address) -> Iterator[SparkTable]:
    """An open session.

    Raises:
        ConfigError: pyspark or Java is missing, or a secret.
        PrivateDataError: Spark cannot be reached, or has no such table.
    """
    session = open_session(address)
    try:
        yield SparkTable(session, address)
    finally:
        close_session(session)


def rows_of(frame: Any) -> list[Any]:
    """All rows of a small frame, by one job; PrivateDataError if it fails."""
    with no_values_in_errors(NAME, words):
        return list(frame.collect())


def one_row(frame: Any) -> Any:
    """The one row of a frame; PrivateDataError."""
    found = rows_of(frame)
    if len(found) != 1:
        raise PrivateDataError(f"{NAME} gave {len(found)} rows where one is due.")
    return found[0]

"""One read of a source, to where its codes stay: the worker's folder, or the owner's Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qserver.errors import ConfigError
from qserver.query.domain import Domain
from worker.private.snapshot import Snapshot, read_snapshot
from worker.private.spark_place import SparkPlace
from worker.private.truncation import PersonRule
from worker.sources.address import Address


def read_where_it_stays(
    data: Path | Address,
    domain: Domain,
    place: SparkPlace | None,
    *,
    key: bytes,
    folder: Path,
    person: PersonRule | None,
    say: Callable[[str], None],
    empty: bool,
    as_it_is: bool,
) -> Snapshot:
    """A snapshot of a source; arguments and errors as `read_snapshot`.

    Args:
        place: where on Spark the codes stay and are counted; None for the worker's folder.
    """
    if place is None:
        return read_snapshot(
            data,
            domain,
            key=key,
            folder=folder,
            person=person,
            say=say,
            empty=empty,
            as_it_is=as_it_is,
        )
    address = Address.of(data)
    if not address.is_spark:
        raise ConfigError("source", "be spark:// or spark-connect:// where the codes are on Spark")
    # Loaded only here: a worker that answers questions codes nothing.
    from worker.private.spark.coding import snapshot_on_spark

    return snapshot_on_spark(
        address,
        domain,
        place,
        key=key,
        person=person,
        say=say,
        empty=empty,
        as_it_is=as_it_is,
    )

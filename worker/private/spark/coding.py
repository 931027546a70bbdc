"""Code a table on Spark: once, into sorted codes in the owner's folder."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from qserver.errors import PrivateDataError
from qserver.query.domain import Domain
from worker.coding.coder import coder_of
from worker.coding.tally import Tally
from worker.constants import WORKER
from worker.private.content_digests import Content, people_digest, records_digest
from worker.private.seal_file import fingerprint_of
from worker.private.snapshot import Snapshot
from worker.private.spark.executors import coding, keeping
from worker.private.spark.tables import SortedCodes, SparkTable, check_machines
from worker.private.spark_place import SparkCodes, SparkPlace, column_names, schema_of
from worker.private.truncation import PersonRule
from worker.sources.address import Address
from worker.sources.source import check_columns, no_values_in_errors
from worker.sources.spark import NAME, open_spark, rows_of, words
from worker.sources.spark import SparkTable as SparkRows


def snapshot_on_spark(
    address: Address,
    domain: Domain,
    place: SparkPlace,
    *,
    key: bytes,
    person: PersonRule | None,
    say: Callable[[str], None],
    empty: bool,
    as_it_is: bool,
) -> Snapshot:
    """Code a source on Spark; arguments and errors as `read_snapshot`.

    What was written is emptied again if anything fails. Nothing can be done if this process is
    killed: then a folder stays that no dataset names.
    """
    with open_spark(address) as source:
        check_machines(source.session)
        made = _Coding(source, address, domain, place, key, person)
        try:
            return made.snapshot(say, empty=empty, as_it_is=as_it_is)
        except BaseException:
            made.empty(made.codes, say)
            raise
        finally:
            made.empty(made.staged, say)


class _Coding:
    """One coding, step by step."""

    def __init__(
        self,
        source: SparkRows,
        address: Address,
        domain: Domain,
        place: SparkPlace,
        key: bytes,
        person: PersonRule | None,
    ) -> None:
        self._source, self._session = source, source.session
        self._address, self._domain, self._place = address, domain, place
        self._key, self._person = key, person
        self._name = f"qserver-{secrets.token_hex(8)}"
        base = f"{place.folder.rstrip('/')}/{self._name}"
        self.codes, self.staged, self._all = base, f"{base}.staged", f"{base}.all"

    def snapshot(self, say: Callable[[str], None], *, empty: bool, as_it_is: bool) -> Snapshot:
        """Code, keep at most k records of each person, sort, digest."""
        say("coding on Spark")
        tally = self._stage()
        if not (empty or tally.n_rows):
            raise PrivateDataError("The source has no rows. Nothing was registered.")
        if not as_it_is:
            tally.check_found()
        staged = self._staged("tally IS NULL")
        say("sorting on Spark")
        n = tally.n_inside
        if self._person is None:
            self._sort(staged, n, self.codes)
            every = kept = self._opened(self.codes)
        else:
            self._sort(self._kept(staged, self._person), n, self.codes)
            self._sort(staged, n, self._all)
            kept, every = self._opened(self.codes), self._opened(self._all)
        say("reading the sorted codes back for their fingerprint")
        salt = secrets.token_hex(16)
        check = kept.check(salt)
        tally.n_kept = kept.n_records(check)
        content = self._content(every, n)
        axes = range(len(self._domain.sizes))
        fingerprint = fingerprint_of(
            (kept.pieces(axis) for axis in axes), tally.n_kept, self._domain, self._key
        )
        if self._person is not None:
            self.empty(self._all, say)
        for line in tally.lines():
            say(line)
        codes = SparkCodes(
            self._address.text, self._address.options, self._place, self._name, salt, check
        )
        table = SparkTable(codes, self._domain.sizes)
        who = tally.person_type
        return Snapshot(table, tally.n_kept, fingerprint, fingerprint, content, None, codes, who)

    def empty(self, path: str, say: Callable[[str], None]) -> None:
        """Delete a folder's content, as far as Spark can: it has no command for a folder.

        The owner is told where it cannot, since records may lie there with their persons.
        """
        try:
            nothing = self._session.createDataFrame([], schema_of(self._domain.sizes))
            nothing.write.mode("overwrite").parquet(path)
        except Exception:  # noqa: BLE001 - what Spark raises is of many kinds, and may quote values
            say(f"{path} could not be emptied: delete it, if it is there")

    def _stage(self) -> Tally:
        """Code the source by one read; returns the fate of its rows."""
        column = "" if self._person is None else self._person.column
        with coder_of(self._domain, person_column=column) as coder:
            check_columns(self._source, coder.columns)
            names = coder.columns
        schema = f"{schema_of(self._domain.sizes)}, person STRING, tally STRING"
        frame = self._source.frame(names)
        with no_values_in_errors(NAME, words):
            coded = frame.mapInArrow(coding(self._domain, column), schema)
            coded.write.mode("error").parquet(self.staged)
        tally = Tally.of(self._domain)
        for row in rows_of(self._staged("tally IS NOT NULL").select("tally")):
            tally.add_plain(str(row[0]))
        return tally

    def _staged(self, condition: str) -> Any:
        schema = f"{schema_of(self._domain.sizes)}, person STRING, tally STRING"
        with no_values_in_errors(NAME, words):
            return self._session.read.schema(schema).parquet(self.staged).where(condition)

    def _kept(self, staged: Any, person: PersonRule) -> Any:
        """The records that the rule for one person keeps; a person's are put together for that."""
        with no_values_in_errors(NAME, words):
            grouped = staged.drop("tally").repartition("person").sortWithinPartitions("person")
            step = keeping(self._domain.sizes, person, self._key)
            return grouped.mapInArrow(step, schema_of(self._domain.sizes))

    def _sort(self, frame: Any, n: int, path: str) -> None:
        """Write the codes in order, with the last attribute first."""
        names = column_names(self._domain.sizes)
        order = names[::-1]
        n_parts = max(1, math.ceil(n / WORKER.spark_file_records))
        with no_values_in_errors(NAME, words):
            chosen = frame.select(*names).repartitionByRange(n_parts, *order)
            writer = chosen.sortWithinPartitions(*order).write.mode("error")
            writer.option("maxRecordsPerFile", WORKER.spark_file_records).parquet(path)

    def _opened(self, path: str) -> SortedCodes:
        return SortedCodes(self._session, path, self._domain.sizes)

    def _content(self, every: SortedCodes, n: int) -> Content:
        """The digests as on one machine. No file is the one."""
        if not n:
            return Content()
        people = "" if self._person is None else people_digest(self._people(), self._key)
        return Content(records=records_digest(self._domain, every.pieces, self._key), people=people)

    def _people(self) -> Iterator[str]:
        """Every person once, in the order of their texts' bytes."""
        with no_values_in_errors(NAME, words):
            frame = self._staged("tally IS NULL AND person <> ''").select("person")
            rows = frame.distinct().orderBy("person").toLocalIterator()
        while True:
            with no_values_in_errors(NAME, words):
                row = next(rows, None)
            if row is None:
                return
            yield str(row[0])

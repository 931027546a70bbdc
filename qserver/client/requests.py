"""The requests of a client as flows: bodies on the way out, results on the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qserver.client.flows import Flow, Patience, answered, read, told
from qserver.client.results import Answer, DatasetInfo, Price
from qserver.client.tables import Table
from qserver.errors import ConfigError
from qserver.query.sql.tokens import dataset_of, explains

Query = Mapping[str, Any] | str
_DATASETS = ("v1", "datasets")


@dataclass(frozen=True)
class Requests:
    """What can be asked of a server; each method gives a flow that a client carries out."""

    patience: Patience

    def datasets(self) -> Flow[list[DatasetInfo]]:
        """All datasets, page by page."""
        found: list[DatasetInfo] = []
        after: str | None = None
        while True:
            query = {} if after is None else {"after": after}
            page = yield from read(self.patience, *_DATASETS, **query)
            found += map(DatasetInfo.of, page["datasets"])
            after = page["next_after"]
            if after is None:
                return found

    def dataset(self, name: str) -> Flow[DatasetInfo]:
        """One dataset."""
        return DatasetInfo.of((yield from read(self.patience, *_DATASETS, name)))

    def query(
        self, dataset: str, query: Query, *, length: float, confidence: float
    ) -> Flow[Answer]:
        """The answer of a question."""
        document = {"query": query, "length": length, "confidence": confidence}
        path = (*_DATASETS, dataset, "query")
        return Answer.of((yield from answered(self.patience, *path, document=document)))

    def explain(
        self, dataset: str, query: Query, *, length: float, confidence: float
    ) -> Flow[Price]:
        """The price of a question."""
        document = {"query": query, "length": length, "confidence": confidence}
        path = (*_DATASETS, dataset, "explain")
        return Price.of((yield from told(self.patience, *path, document=document)))

    def probability(
        self,
        dataset: str,
        query: Query,
        *,
        at_least: float | None,
        between: tuple[float, float] | None,
    ) -> Flow[float]:
        """A probability from history alone."""
        if (at_least is None) == (between is None):
            raise ConfigError("at_least", "be given, or else `between`, but not both")
        bound = {"between": list(between)} if between is not None else {"at_least": at_least}
        path = (*_DATASETS, dataset, "probability")
        found = yield from told(self.patience, *path, document={"query": query, **bound})
        return float(found["probability"])

    def workload(
        self,
        dataset: str,
        queries: Sequence[Query] | Mapping[str, Query],
        *,
        length: float,
        confidence: float,
        simultaneous: bool,
        consistent: bool,
    ) -> Flow[Table]:
        """The answers of many questions."""
        by_name = (
            dict(queries)
            if isinstance(queries, Mapping)
            else {str(i): query for i, query in enumerate(queries)}
        )
        document: dict[str, Any] = {
            "questions": [{"query": query} for query in by_name.values()],
            "length": length,
            "confidence": confidence,
            "simultaneous": simultaneous,
        }
        if consistent:
            document["consistent"] = True
        path = (*_DATASETS, dataset, "workload")
        found = yield from answered(self.patience, *path, document=document)
        return Table.of_workload(found, tuple(by_name))

    def sql(self, text: str) -> Flow[Table]:
        """The table that a statement asks for."""
        if explains(text):
            raise ConfigError("text", "have no EXPLAIN", hint="`price` tells what it would cost.")
        path = (*_DATASETS, dataset_of(text), "sql")
        found = yield from answered(self.patience, *path, document={"sql": text})
        return Table.of(found["table"])

    def price(self, text: str) -> Flow[Price]:
        """The price of a statement."""
        # The text goes as it is: a refusal points at places in it.
        document = {"sql": text, "explain": True}
        path = (*_DATASETS, dataset_of(text), "sql")
        found = yield from told(self.patience, *path, document=document)
        return Price.of(found["price"])

"""The client that waits for each answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qserver.client.flows import Failure, Flow, Patience, Pause, T
from qserver.client.http import HttpClient, Reply
from qserver.client.requests import Query, Requests
from qserver.client.results import Answer, DatasetInfo, Price
from qserver.client.sync_models import Models
from qserver.client.tables import Table

DEFAULT_URL = "http://127.0.0.1:8000"


class Client:
    """A client that waits for each answer. Thread-safe.

    Queries are structured, such as `{"where": {"sex": "Female"}}`, or a text of SQL that says what
    to count. `length` is the full length of the interval, in the query's own units.

    Every method raises BudgetProblemError where the answer costs more than may be spent,
    QuestionProblemError where the question is wrong, AccessProblemError where the token or its
    account may not, ServerProblemError where the server refuses for another reason (its `code`
    tells), ServerUnreachableError where none answers, and NotDoneError where `wait_s` is over
    while the job goes on.

    Args:
        url: of the server.
        token: of an account; an open server takes none.
        timeout_s: how long one request may take, in seconds.
        wait_s: how long an answer is waited for in all.
        retries: how often a request is sent again where the connection broke, or the server asked
            for patience. A question that is sent again is answered and charged once.
        sleep: waits for so many seconds.
        ca: file or folder of the authorities to trust, in PEM; by default what SSL_CERT_FILE and
            SSL_CERT_DIR say, or the system's.
        proxy: URL of a proxy, '' for none; by default what HTTP_PROXY, HTTPS_PROXY and NO_PROXY
            say, and none for this machine.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str = "",
        timeout_s: float = 30.0,
        wait_s: float = 300.0,
        retries: int = 4,
        sleep: Callable[[float], None] = time.sleep,
        ca: str | Path | None = None,
        proxy: str | None = None,
    ) -> None:
        self._http = HttpClient(url, timeout_s=timeout_s, token=token, ca=ca, proxy=proxy)
        patience = Patience(retries, wait_s, time.monotonic)
        self._requests = Requests(patience)
        self._sleep = sleep
        self.models = Models(self._run, patience)

    def datasets(self) -> list[DatasetInfo]:
        """All datasets by name."""
        return self._run(self._requests.datasets())

    def dataset(self, name: str) -> DatasetInfo:
        """One dataset with its attributes."""
        return self._run(self._requests.dataset(name))

    def query(
        self, dataset: str, query: Query, *, length: float, confidence: float = 0.95
    ) -> Answer:
        """The answer of a linear counting query, with an interval of at most `length`."""
        flow = self._requests.query(dataset, query, length=length, confidence=confidence)
        return self._run(flow)

    def explain(
        self, dataset: str, query: Query, *, length: float, confidence: float = 0.95
    ) -> Price:
        """What the answer would cost, and what is known for nothing; spends nothing."""
        flow = self._requests.explain(dataset, query, length=length, confidence=confidence)
        return self._run(flow)

    def probability(
        self,
        dataset: str,
        query: Query,
        *,
        at_least: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> float:
        """P(q >= at_least), or P(a <= q <= b), from history alone; spends nothing."""
        flow = self._requests.probability(dataset, query, at_least=at_least, between=between)
        return self._run(flow)

    def workload(
        self,
        dataset: str,
        queries: Sequence[Query] | Mapping[str, Query],
        *,
        length: float,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistent: bool = False,
    ) -> Table:
        """Many answers, planned, paid and measured as one; a row per query, by name if given.

        With `consistent` each cell has its value by one non-negative table too, for nothing.
        """
        flow = self._requests.workload(
            dataset,
            queries,
            length=length,
            confidence=confidence,
            simultaneous=simultaneous,
            consistent=consistent,
        )
        return self._run(flow)

    def sql(self, text: str) -> Table:
        """The table that a statement asks for; the dataset is the one in its FROM."""
        return self._run(self._requests.sql(text))

    def price(self, text: str) -> Price:
        """What a statement would cost, with or without EXPLAIN before it; spends nothing."""
        return self._run(self._requests.price(text))

    def _run(self, flow: Flow[T]) -> T:
        outcome: Reply | Failure | None = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    self._sleep(step.seconds)
                else:
                    outcome = step.outcome(self._http)
        except StopIteration as end:
            result: T = end.value
            return result

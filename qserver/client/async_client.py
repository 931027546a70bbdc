"""The client whose answers are awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from qserver.client.async_models import AsyncModels
from qserver.client.flows import Failure, Flow, Patience, Pause, T
from qserver.client.http import HttpClient, Reply
from qserver.client.requests import Query, Requests
from qserver.client.results import Answer, DatasetInfo, Price
from qserver.client.sync_client import DEFAULT_URL
from qserver.client.tables import Table


class AsyncClient:
    """A client whose answers are awaited; everything else is as of `Client`.

    Requests run in threads of the event loop's pool; pauses hold none. A call that is cancelled
    may still be answered, and charged: asked again, it is free.

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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        ca: str | Path | None = None,
        proxy: str | None = None,
    ) -> None:
        self._http = HttpClient(url, timeout_s=timeout_s, token=token, ca=ca, proxy=proxy)
        patience = Patience(retries, wait_s, time.monotonic)
        self._requests = Requests(patience)
        self._sleep = sleep
        self.models = AsyncModels(self._run, patience)

    async def datasets(self) -> list[DatasetInfo]:
        """All datasets by name."""
        return await self._run(self._requests.datasets())

    async def dataset(self, name: str) -> DatasetInfo:
        """One dataset with its attributes."""
        return await self._run(self._requests.dataset(name))

    async def query(
        self, dataset: str, query: Query, *, length: float, confidence: float = 0.95
    ) -> Answer:
        """The answer of a linear counting query, with an interval of at most `length`."""
        flow = self._requests.query(dataset, query, length=length, confidence=confidence)
        return await self._run(flow)

    async def explain(
        self, dataset: str, query: Query, *, length: float, confidence: float = 0.95
    ) -> Price:
        """What the answer would cost, and what is known for nothing; spends nothing."""
        flow = self._requests.explain(dataset, query, length=length, confidence=confidence)
        return await self._run(flow)

    async def probability(
        self,
        dataset: str,
        query: Query,
        *,
        at_least: float | None = None,
        between: tuple[float, float] | None = None,
    ) -> float:
        """P(q >= at_least), or P(a <= q <= b), from history alone; spends nothing."""
        flow = self._requests.probability(dataset, query, at_least=at_least, between=between)
        return await self._run(flow)

    async def workload(
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
        return await self._run(flow)

    async def sql(self, text: str) -> Table:
        """The table that a statement asks for; the dataset is the one in its FROM."""
        return await self._run(self._requests.sql(text))

    async def price(self, text: str) -> Price:
        """What a statement would cost, with or without EXPLAIN before it; spends nothing."""
        return await self._run(self._requests.price(text))

    async def _run(self, flow: Flow[T]) -> T:
        outcome: Reply | Failure | None = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    await self._sleep(step.seconds)
                else:
                    outcome = await asyncio.to_thread(step.outcome, self._http)
        except StopIteration as end:
            result: T = end.value
            return result

"""The two clients and their models: one list of requests, waited for or awaited.

The two ways to carry out an exchange with the server: in the caller's thread, or awaited.

`waits` and `awaits` make a method of a client from the function that makes its exchange.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from qserver.client import model_requests, requests
from qserver.client.flows import Exchange, Failure, Patience, Pause, T, outcome
from qserver.client.http import HttpClient, Reply, default_url

P = ParamSpec("P")


@dataclass(frozen=True)
class SyncDriver:
    """Carries out an exchange in the caller's thread; `sleep`: waits for so many seconds."""

    http: HttpClient
    patience: Patience
    sleep: Callable[[float], None]

    def result(self, exchange: Exchange[T]) -> T:
        """The result of an exchange, as its `read` makes it."""
        return exchange.read(self.reply(exchange).document)

    def reply(self, exchange: Exchange[Any]) -> Reply:
        """The last reply of an exchange."""
        flow = exchange.steps(self.patience, exchange.call)
        found: Reply | Failure | None = None
        while True:
            try:
                step = flow.send(found)
            except StopIteration as end:
                return _reply_in(end)
            if isinstance(step, Pause):
                self.sleep(step.seconds)
                found = None
            else:
                found = outcome(step, self.http)


@dataclass(frozen=True)
class AsyncDriver:
    """Carries out an exchange without blocking the event loop.

    A request runs in a thread of the loop's pool. A pause occupies no thread.

    Args:
        sleep: waits for so many seconds.
    """

    http: HttpClient
    patience: Patience
    sleep: Callable[[float], Awaitable[None]]

    async def result(self, exchange: Exchange[T]) -> T:
        """The result of an exchange, as its `read` makes it."""
        return exchange.read((await self.reply(exchange)).document)

    async def reply(self, exchange: Exchange[Any]) -> Reply:
        """The last reply of an exchange."""
        import asyncio

        flow = exchange.steps(self.patience, exchange.call)
        found: Reply | Failure | None = None
        while True:
            try:
                step = flow.send(found)
            except StopIteration as end:
                return _reply_in(end)
            if isinstance(step, Pause):
                await self.sleep(step.seconds)
                found = None
            else:
                found = await asyncio.to_thread(outcome, step, self.http)


async def pause(seconds: float) -> None:
    """As `asyncio.sleep`, whose package loads long: a client that waits does without it."""
    import asyncio

    await asyncio.sleep(seconds)


def waits(make: Callable[P, Exchange[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that waits for the result; its object has a `SyncDriver` as `_driver`."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        driver: SyncDriver = self._driver
        return driver.result(make(*args, **kwargs))

    _describe(method, make)
    return method


def awaits(make: Callable[P, Exchange[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method whose result is awaited; its object has an `AsyncDriver` as `_driver`."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        driver: AsyncDriver = self._driver
        return await driver.result(make(*args, **kwargs))

    _describe(method, make)
    return method


def named(kind: type[T]) -> type[T]:
    """Class decorator: help and tracebacks show each method by its name in the class."""
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            method.__name__, method.__qualname__ = name, f"{kind.__name__}.{name}"
            method.__module__ = kind.__module__
    return kind


def _reply_in(end: StopIteration) -> Reply:
    reply: Reply = end.value
    return reply


def _describe(method: Any, make: Callable[..., Any]) -> None:
    """Give the method the name, docstring and signature that `help` shows."""
    functools.update_wrapper(method, make)
    signature = inspect.signature(make)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    result = str(signature.return_annotation).removeprefix("Exchange[").removesuffix("]")
    method.__signature__ = signature.replace(
        parameters=[itself, *signature.parameters.values()], return_annotation=result
    )


@named
class ModelPrices:
    """The prices of learning and of checking, by the same arguments; spends nothing."""

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver

    model = waits(model_requests.price_of_model)
    network = waits(model_requests.price_of_network)
    marginals = waits(model_requests.price_of_marginals)
    check = waits(model_requests.price_of_check)


@named
class AsyncModelPrices:
    """`ModelPrices` whose results are awaited."""

    def __init__(self, driver: AsyncDriver) -> None:
        self._driver = driver

    model = awaits(model_requests.price_of_model)
    network = awaits(model_requests.price_of_network)
    marginals = awaits(model_requests.price_of_marginals)
    check = awaits(model_requests.price_of_check)


@named
class Models:
    """Learn, ask, check, draw from, export and audit models; `client.models`.

    Learning and checking cost budget; asking a model does not. `model` is an id, or a result that
    names the model. The methods raise the errors of the client.
    """

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver
        self.prices = ModelPrices(driver)

    learn = waits(model_requests.learn)
    learn_network = waits(model_requests.learn_network)
    learn_marginals = waits(model_requests.learn_marginals)
    all = waits(model_requests.all_models)
    get = waits(model_requests.get)
    marginal = waits(model_requests.marginal)
    most_probable = waits(model_requests.most_probable)
    count = waits(model_requests.count)
    check = waits(model_requests.check)
    sample = waits(model_requests.sample)
    write_sample = waits(model_requests.write_sample)
    export = waits(model_requests.export)
    audit = waits(model_requests.audit)
    propose = waits(model_requests.propose)


@named
class AsyncModels:
    """`Models` whose results are awaited; `client.models` of an `AsyncClient`."""

    def __init__(self, driver: AsyncDriver) -> None:
        self._driver = driver
        self.prices = AsyncModelPrices(driver)

    learn = awaits(model_requests.learn)
    learn_network = awaits(model_requests.learn_network)
    learn_marginals = awaits(model_requests.learn_marginals)
    all = awaits(model_requests.all_models)
    get = awaits(model_requests.get)
    marginal = awaits(model_requests.marginal)
    most_probable = awaits(model_requests.most_probable)
    count = awaits(model_requests.count)
    check = awaits(model_requests.check)
    sample = awaits(model_requests.sample)
    write_sample = awaits(model_requests.write_sample)
    export = awaits(model_requests.export)
    audit = awaits(model_requests.audit)
    propose = awaits(model_requests.propose)


@named
class Client:
    """A client that waits for each answer. Thread-safe.

    Queries are structured, such as `{"where": {"sex": "Female"}}`, or a text of SQL that says what
    to count. `length` is the full length of the interval, in the query's own units.

    Every method raises one of these errors. BudgetProblemError: the answer costs more than may be
    spent. QuestionProblemError: the question is wrong. AccessProblemError: the token or its account
    may not do this. ServerProblemError: the server refused for another reason, named by its `code`.
    ServerUnreachableError: no server answers. NotDoneError: `wait_s` is over; the job continues.

    Args:
        url: of the server; by default QSERVER_URL, or the address of a local demo.
        token: of an account; an open server takes none.
        timeout_s: longest time for one request, in seconds.
        wait_s: longest wait for an answer in all, in seconds.
        retries: how often a request is sent again if the connection broke, or the server asked
            for patience. A question that is sent again is answered and charged once.
        sleep: waits for so many seconds.
        ca: file or folder of the authorities to trust, in PEM; by default those of SSL_CERT_FILE
            and SSL_CERT_DIR, or the system's.
        proxy: URL of a proxy, '' for none; by default that of HTTP_PROXY, HTTPS_PROXY and NO_PROXY,
            and none for this machine.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str = "",
        timeout_s: float = 30.0,
        wait_s: float = 300.0,
        retries: int = 4,
        sleep: Callable[[float], None] = time.sleep,
        ca: str | Path | None = None,
        proxy: str | None = None,
    ) -> None:
        http = HttpClient(_known(url), timeout_s=timeout_s, token=token, ca=ca, proxy=proxy)
        self._driver = SyncDriver(http, Patience(retries, wait_s, time.monotonic), sleep)
        self.models = Models(self._driver)

    datasets = waits(requests.datasets)
    dataset = waits(requests.dataset)
    query = waits(requests.query)
    explain = waits(requests.explain)
    probability = waits(requests.probability)
    workload = waits(requests.workload)
    sql = waits(requests.sql)
    price = waits(requests.price)
    posterior = waits(requests.posterior)
    budget = waits(requests.budget)
    history = waits(requests.history)
    released = waits(requests.released)
    submit = waits(requests.submit)
    job = waits(requests.job)
    result = waits(requests.result)


@named
class AsyncClient:
    """A `Client` whose answers are awaited; arguments, methods and errors are the same.

    Requests run in threads of the event loop's pool; pauses occupy none. A call that is cancelled
    may still be answered, and charged. Asked again, it costs nothing.

    Args:
        sleep: waits for so many seconds, awaited; the other arguments are those of `Client`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str = "",
        timeout_s: float = 30.0,
        wait_s: float = 300.0,
        retries: int = 4,
        sleep: Callable[[float], Awaitable[None]] = pause,
        ca: str | Path | None = None,
        proxy: str | None = None,
    ) -> None:
        http = HttpClient(_known(url), timeout_s=timeout_s, token=token, ca=ca, proxy=proxy)
        self._driver = AsyncDriver(http, Patience(retries, wait_s, time.monotonic), sleep)
        self.models = AsyncModels(self._driver)

    datasets = awaits(requests.datasets)
    dataset = awaits(requests.dataset)
    query = awaits(requests.query)
    explain = awaits(requests.explain)
    probability = awaits(requests.probability)
    workload = awaits(requests.workload)
    sql = awaits(requests.sql)
    price = awaits(requests.price)
    posterior = awaits(requests.posterior)
    budget = awaits(requests.budget)
    history = awaits(requests.history)
    released = awaits(requests.released)
    submit = awaits(requests.submit)
    job = awaits(requests.job)
    result = awaits(requests.result)


def _known(url: str | None) -> str:
    return default_url(os.environ) if url is None else url

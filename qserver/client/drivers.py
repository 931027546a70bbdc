"""The two ways to carry out an exchange with the server: in the caller's thread, or awaited.

`waits` and `awaits` make a method of a client from the function that makes its exchange.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from qserver.client.flows import Exchange, Failure, Patience, Pause, T, outcome
from qserver.client.http import HttpClient, Reply

P = ParamSpec("P")


@dataclass(frozen=True)
class SyncDriver:
    """Carries out an exchange in the caller's thread.

    Args:
        sleep: waits for so many seconds.
    """

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

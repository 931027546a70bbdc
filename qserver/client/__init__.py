"""Python clients of a qserver: `Client` waits for each answer, `AsyncClient` awaits it."""

from __future__ import annotations

from qserver.client.awaiting import AsyncClient
from qserver.client.results import Answer, Cell, Cost, DatasetInfo, Interval, Price, Table
from qserver.client.waiting import Client
from qserver.client_errors import (
    AccessProblemError,
    BudgetProblemError,
    NotDoneError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
)

__all__ = [
    "AccessProblemError",
    "Answer",
    "AsyncClient",
    "BudgetProblemError",
    "Cell",
    "Client",
    "Cost",
    "DatasetInfo",
    "Interval",
    "NotDoneError",
    "Price",
    "QuestionProblemError",
    "ServerProblemError",
    "ServerUnreachableError",
    "Table",
]

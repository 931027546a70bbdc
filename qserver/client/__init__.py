"""Python clients of a qserver: `Client` waits for each answer, `AsyncClient` awaits it.

Begin with `flows`, what a client does step by step; `sync_client` and `async_client` carry it out.
`results` and `model_results` are what a client is told.
"""

from __future__ import annotations

from qserver.client.async_client import AsyncClient
from qserver.client.errors import (
    AccessProblemError,
    BudgetProblemError,
    NotDoneError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
)
from qserver.client.leaks import LeakAudit, StructureProposal
from qserver.client.model_requests import Gate
from qserver.client.model_results import (
    CheckPrice,
    Distribution,
    ErrorBounds,
    LearningPrice,
    LearntModel,
    ModelCount,
    ModelInfo,
    MostProbable,
    SyntheticRecords,
)
from qserver.client.results import Answer, Cost, DatasetInfo, Interval, Price
from qserver.client.sync_client import Client
from qserver.client.tables import Cell, Table

__all__ = [
    "AccessProblemError",
    "Answer",
    "AsyncClient",
    "BudgetProblemError",
    "Cell",
    "CheckPrice",
    "Client",
    "Cost",
    "DatasetInfo",
    "Distribution",
    "ErrorBounds",
    "Gate",
    "Interval",
    "LeakAudit",
    "LearningPrice",
    "LearntModel",
    "ModelCount",
    "ModelInfo",
    "MostProbable",
    "NotDoneError",
    "Price",
    "QuestionProblemError",
    "ServerProblemError",
    "ServerUnreachableError",
    "StructureProposal",
    "SyntheticRecords",
    "Table",
]

"""Python clients of a qserver: `Client` waits for each answer, `AsyncClient` awaits it.

Begin with `clients`, which lists the methods. `requests` and `model_requests` make the exchange of
each method, `flows` has the steps that lead to its reply, and `drivers` carries them out. Results
are in `results`, `tables`, `model_results` and `leaks`; `reading` reads them from JSON, and
`listing` shows those of many rows. `http` is the connection.
"""

from __future__ import annotations

from qserver.client.clients import AsyncClient, Client
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
from qserver.client.results import (
    Answer,
    BothChoices,
    Claim,
    Cost,
    DatasetInfo,
    Interval,
    Price,
    Probability,
)
from qserver.client.tables import AfterLooking, Cell, Picked, Table
from qserver.query.looking import Selection

__all__ = [
    "AccessProblemError",
    "AfterLooking",
    "Answer",
    "AsyncClient",
    "BothChoices",
    "BudgetProblemError",
    "Cell",
    "CheckPrice",
    "Claim",
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
    "Picked",
    "Price",
    "Probability",
    "QuestionProblemError",
    "Selection",
    "ServerProblemError",
    "ServerUnreachableError",
    "StructureProposal",
    "SyntheticRecords",
    "Table",
]

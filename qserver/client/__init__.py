"""Python clients of a qserver: `Client` waits for each answer, `AsyncClient` awaits it.

Begin with `clients`, which lists the methods and carries them out. `requests` and `model_requests`
make the exchange of each method, and `flows` has the steps that lead to its reply. Results are in
`results`, `tables` and `model_results`; those of `lookups` are budgets, histories, jobs and
posteriors. `frames` shows those of many rows, and draws them. `http` is the connection.
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
from qserver.client.frames import Plot
from qserver.client.lookups import Budget, History, Job, Posterior, Released
from qserver.client.model_requests import Gate
from qserver.client.model_results import (
    CheckPrice,
    Distribution,
    ErrorBounds,
    LeakAudit,
    LearningPrice,
    LearntModel,
    ModelCount,
    ModelInfo,
    MostProbable,
    StructureProposal,
    SyntheticRecords,
)
from qserver.client.results import (
    Answer,
    BothChoices,
    Cost,
    DatasetInfo,
    Interval,
    OwnPrice,
    Price,
    Probability,
)
from qserver.client.tables import AfterLooking, Cell, Picked, Table
from qserver.query.asking.after_looking import Selection
from qserver.records.statement import ClaimStatus as Claim

__all__ = [
    "AccessProblemError",
    "AfterLooking",
    "Answer",
    "AsyncClient",
    "BothChoices",
    "Budget",
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
    "History",
    "Interval",
    "Job",
    "LeakAudit",
    "LearningPrice",
    "LearntModel",
    "ModelCount",
    "ModelInfo",
    "MostProbable",
    "NotDoneError",
    "OwnPrice",
    "Picked",
    "Plot",
    "Posterior",
    "Price",
    "Probability",
    "QuestionProblemError",
    "Released",
    "Selection",
    "ServerProblemError",
    "ServerUnreachableError",
    "StructureProposal",
    "SyntheticRecords",
    "Table",
]

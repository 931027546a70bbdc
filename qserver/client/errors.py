"""The errors of a client, in addition to those that the server itself raises.

QServerError
├── ServerProblemError            the server refused, with a code of its own
│   ├── AccessProblemError        the token, or what its account may do
│   ├── BudgetProblemError        the answer costs more than may be spent
│   └── QuestionProblemError      the question is wrong
├── ServerUnreachableError        no server answers at the address
└── NotDoneError                  the job has not ended yet
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qserver.errors import QServerError


class ServerProblemError(QServerError):
    """The server refused, with a problem document.

    Args:
        code: the server's stable code, or `bad_reply` if the reply is not a problem document.
        detail: the server's sentence.
        facts: the problem's other members, such as `price` and `remaining`.
        status: of the response; None if unknown.
        retry_after_s: seconds after which a new try may help, or None.
    """

    code = "server_problem"

    def __init__(
        self,
        *,
        code: str,
        detail: str,
        facts: Mapping[str, Any] | None = None,
        status: int | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        self.code = code
        self.detail = detail
        self.facts = dict(facts or {})
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(detail)


class AccessProblemError(ServerProblemError):
    """The server does not know the token, or its account may not do this."""

    code = "access_problem"


class BudgetProblemError(ServerProblemError):
    """The answer costs more than may be spent; `facts` has `price` and `remaining`."""

    code = "budget_problem"


class QuestionProblemError(ServerProblemError):
    """The question is wrong; `facts` has `errors`, and for SQL `line`, `column` and `excerpt`."""

    code = "question_problem"


class ServerUnreachableError(QServerError):
    """No qserver answered at the URL."""

    code = "unreachable"


class NotDoneError(QServerError):
    """The time is over before the answer came; its job continues.

    Args:
        job: its id, for `Client.job`.
    """

    code = "not_done"

    def __init__(self, message: str, *, job: str) -> None:
        self.job = job
        super().__init__(message)

"""The owner's pages: the audit log, and who spent what."""

from __future__ import annotations

from flask import Response, request

from qserver.api.bodies.dataset import AuditBody, SpendingBody
from qserver.api.operation import Parameter, integer_parameter, operation, read_parameters
from qserver.api.replies import json_reply
from qserver.api.routes.datasets import LIMIT, limit_of
from qserver.api.routes.views import Views
from qserver.api.wire import SAFE_INTEGER

_AFTER = Parameter(
    "after",
    "the page starts after the entry at this place",
    {"type": "integer", "minimum": -1, "default": -1},
)


class AuditViews(Views):
    """The views of an owner, on one service."""

    name = "audit"
    place = "/v1"

    @operation(
        "/audit",
        "audit",
        {200: AuditBody},
        "invalid_input",
        parameters=(LIMIT, _AFTER),
        audience="owners",
    )
    def get_changes(self) -> Response:
        """List the changes of accounts, allowances, datasets and limits, oldest first.

        Each entry holds the digest of the one before it as `prev`.
        """
        values = read_parameters(request, LIMIT, _AFTER)
        return json_reply(AuditBody.of(self._service.ledger.changes(**_page(values))))

    @operation(
        "/datasets/<dataset>/audit",
        "audit",
        {200: AuditBody},
        "invalid_input",
        "not_found",
        parameters=(LIMIT, _AFTER),
        audience="owners",
    )
    def get_charges(self, dataset: str) -> Response:
        """List the charges of a dataset's population, oldest first, with who paid.

        Each entry holds the digest of the one before it as `prev`.
        """
        values = read_parameters(request, LIMIT, _AFTER)
        return json_reply(AuditBody.of(self._service.ledger.charges(dataset, **_page(values))))

    @operation(
        "/datasets/<dataset>/spending",
        "audit",
        {200: SpendingBody},
        "invalid_input",
        "not_found",
        audience="owners",
    )
    def get_spending(self, dataset: str) -> Response:
        """Show who spent what of the budget of a dataset's population.

        The largest loss of a cell that an account's own charges cause; since accounts may load
        different cells, these may add up to more than what the population has spent.
        """
        read_parameters(request)
        return json_reply(SpendingBody.of(self._service.ledger.spending(dataset)))


def _page(values: dict[str, str]) -> dict[str, int]:
    after = integer_parameter(values, "after", default=-1, least=-1, most=SAFE_INTEGER)
    return {"after": after, "limit": limit_of(values)}

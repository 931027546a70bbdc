"""Datasets: their public facts, their releases, where the budget went.

For their owner also the audit log, and who spent what.
"""

from __future__ import annotations

from flask import Response, request

from qserver.api.bodies.answers import (
    AuditBody,
    DatasetBody,
    DatasetsBody,
    HistoryBody,
    LedgerBody,
    ReleasedBody,
    SpendingBody,
)
from qserver.api.operation import (
    Parameter,
    integer_parameter,
    object_parameter,
    operation,
    read_parameters,
)
from qserver.api.replies import Views, json_reply
from qserver.api.wire import SAFE_INTEGER
from qserver.errors import NotFoundError

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_MAX_ID_DIGITS = 15

LIMIT = Parameter(
    "limit",
    "most items in one page",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
)
_AFTER_NAME = Parameter(
    "after", "the page starts after the dataset of this name", {"type": "string"}
)
_AFTER_ID = Parameter(
    "after",
    "the page starts after the row or table with this id",
    {"type": "integer", "minimum": -1, "default": -1},
)
_SNAPSHOT = Parameter(
    "snapshot",
    "a snapshot of the dataset: the present one, or one of `earlier_snapshots`",
    {"type": "string"},
)
_ATTRIBUTE = Parameter(
    "attribute", "an attribute, to report the loss by its values", {"type": "string"}
)
_WHERE = Parameter(
    "where",
    "a `where` object as JSON text: only the cells that it keeps are looked at",
    {"type": "string", "contentMediaType": "application/json"},
)


class DatasetViews(Views):
    """The views of datasets, on one service."""

    name = "datasets"
    place = "/v1/datasets"

    @operation(
        "",
        "datasets",
        {200: DatasetsBody},
        "invalid_input",
        parameters=(LIMIT, _AFTER_NAME),
    )
    def list_datasets(self) -> Response:
        """List the datasets by name, with guarantee and budget.

        Their attributes are left out; ask for one dataset to see them.
        """
        values = read_parameters(request, LIMIT, _AFTER_NAME)
        limit = limit_of(values)
        found = sorted(self._service.datasets(), key=lambda d: d.name)
        rest = [d for d in found if d.name > values.get("after", "")]
        page = rest[:limit]
        next_after = page[-1].name if len(rest) > limit else None
        body = DatasetsBody.model_validate({"datasets": page, "next_after": next_after})
        return json_reply(body)

    @operation("/<dataset>", "datasets", {200: DatasetBody}, "invalid_input", "not_found")
    def get_dataset(self, dataset: str) -> Response:
        """Show a dataset's public schema, guarantee, budget and version."""
        read_parameters(request)
        return json_reply(DatasetBody.of(self._service.dataset(dataset)))

    @operation(
        "/<dataset>/history",
        "datasets",
        {200: HistoryBody},
        "invalid_input",
        "not_found",
        parameters=(LIMIT, _AFTER_ID, _SNAPSHOT),
    )
    def get_history(self, dataset: str) -> Response:
        """List the rows and tables that were released, in the order of their release.

        A row is a query with largest weight 1, its noisy answer, and the scale of its noise. A
        table is many disjoint rows at one scale; its answers are listed one table at a time.
        Anyone who may ask the dataset may read them: they are what the budget bought.
        """
        values = read_parameters(request, LIMIT, _AFTER_ID, _SNAPSHOT)
        after = integer_parameter(values, "after", default=-1, least=-1, most=SAFE_INTEGER)
        page = self._service.history.page(
            dataset, after=after, limit=limit_of(values), snapshot=values.get("snapshot")
        )
        return json_reply(HistoryBody.of(page))

    @operation(
        "/<dataset>/history/<measurement>",
        "datasets",
        {200: ReleasedBody},
        "invalid_input",
        "not_found",
        parameters=(_SNAPSHOT,),
    )
    def get_measurement(self, dataset: str, measurement: str) -> Response:
        """Show one released row or table with all its values, by its id."""
        values = read_parameters(request, _SNAPSHOT)
        found = self._service.history.measurement(
            dataset, measurement_id(measurement), snapshot=values.get("snapshot")
        )
        return json_reply(ReleasedBody.model_validate(found))

    @operation(
        "/<dataset>/ledger",
        "datasets",
        {200: LedgerBody},
        "invalid_input",
        "invalid_query",
        "too_large",
        "not_found",
        parameters=(_ATTRIBUTE, _WHERE),
    )
    def get_ledger(self, dataset: str) -> Response:
        """Show where the budget went: the largest loss of a set of cells, or by attribute."""
        values = read_parameters(request, _ATTRIBUTE, _WHERE)
        where = object_parameter(values, "where")
        attribute = values.get("attribute")
        found = self._service.ledger.loss(dataset, where=where, attribute=attribute)
        return json_reply(LedgerBody.of(found, delta=self._service.delta(dataset)))


def measurement_id(text: str) -> int:
    """The id in a path; NotFoundError if no measurement can have this id."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_ID_DIGITS:
        raise NotFoundError("measurement", text[:80])
    return int(text)


def limit_of(values: dict[str, str]) -> int:
    """The most items that a page may have."""
    return integer_parameter(values, "limit", default=DEFAULT_LIMIT, least=1, most=MAX_LIMIT)


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

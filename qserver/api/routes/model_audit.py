"""The audit of a model by its structure: public, without any cost."""

from __future__ import annotations

from flask import Response

from qserver.api.bodies.model_audit import ModelAuditBody, ModelAuditRequest
from qserver.api.operation import operation
from qserver.api.replies import json_reply
from qserver.api.routes.views import Views, read_request
from qserver.models.network.domain_structure import structure_of_document
from qserver.models.tracing.cap import relation_of
from qserver.models.tracing.report import structural_report
from qserver.query.domain_file import domain_from_document


class ModelAuditViews(Views):
    """The view of the audit, on one service."""

    name = "model_audit"
    place = "/v1/datasets/<dataset>/models"

    @operation(
        "/audit",
        "models",
        {200: ModelAuditBody},
        "invalid_input",
        "invalid_network",
        "too_large",
        "not_found",
        request=ModelAuditRequest,
    )
    def audit_model(self, dataset: str) -> Response:
        """Show how well members of the training set could be told from a model, before learning.

        By its structure, the number of records and epsilon alone: nothing is spent, and no record
        is read.
        """
        asked = read_request(ModelAuditRequest)
        status = self._service.dataset(dataset)
        structure = structure_of_document(asked.network, domain_from_document(status.domain))
        audit = asked.audit(structure, relation_of(status.relation))
        return json_reply(ModelAuditBody.of(structural_report(audit)))

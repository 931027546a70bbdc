"""Structures of networks: what one could leak, and which is proposed under a cap on that."""

from __future__ import annotations

from flask import Response

from qserver.api.bodies.model_structure import (
    ModelAuditBody,
    ModelAuditRequest,
    StructureBody,
    StructureRequest,
)
from qserver.api.operation import operation
from qserver.api.replies import json_reply
from qserver.api.routes.models import MODEL_CODES
from qserver.api.routes.views import Views, read_request
from qserver.models.network.domain_structure import structure_of_document
from qserver.models.tracing.cap import relation_of
from qserver.models.tracing.report import structural_report
from qserver.models.tracing.structure_proposal import proposed_structure
from qserver.query.domain_file import domain_from_document


class ModelStructureViews(Views):
    """The views of structures, on one service."""

    name = "model_structures"
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

    @operation(
        "/<model:model>/structure",
        "models",
        {200: StructureBody},
        *MODEL_CODES,
        request=StructureRequest,
    )
    def propose_structure(self, dataset: str, model: str) -> Response:
        """Propose a structure for a network, as rich as a cap on what it could leak lets it be.

        By how a released model correlates its attributes: nothing is spent, and no record is read.
        """
        asked = read_request(StructureRequest)
        audit = asked.audit(relation_of(self._service.dataset(dataset).relation))
        correlated = self._service.models.correlations(dataset, model, asked.variables)
        candidates = correlated.candidates(
            max_parents=asked.max_parents, min_gain=float(asked.min_gain)
        )
        return json_reply(StructureBody.of(proposed_structure(candidates, audit)))

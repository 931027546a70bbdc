"""A structure for a network, proposed by a released model under a cap on what it could leak."""

from __future__ import annotations

from flask import Blueprint, Response, request

from qserver.api.bodies.model_proposal import StructureBody, StructureRequest
from qserver.api.json_reader import parse_object, read_body
from qserver.api.operation import operation
from qserver.api.parameters import read_parameters
from qserver.api.replies import json_reply
from qserver.api.routes.models import MODEL_CODES
from qserver.models.tracing.cap import relation_of
from qserver.models.tracing.structure_proposal import proposed_structure
from qserver.service.service import Service


class ModelProposalViews:
    """The view of proposals, on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._models = service.models

    def blueprint(self) -> Blueprint:
        """The route."""
        routes = Blueprint("model_proposals", __name__, url_prefix="/v1/datasets/<dataset>/models")
        routes.post("/<model:model>/structure")(self.propose_structure)
        return routes

    @operation("models", {200: StructureBody}, *MODEL_CODES, request=StructureRequest)
    def propose_structure(self, dataset: str, model: str) -> Response:
        """Propose a structure for a network, as rich as a cap on what it could leak lets it be.

        By how a released model correlates its attributes: nothing is spent, and no record is read.
        """
        read_parameters(request)
        asked = StructureRequest.read(parse_object(read_body(request)))
        audit = asked.audit(relation_of(self._service.dataset(dataset).relation))
        correlated = self._models.correlations(dataset, model, asked.variables)
        candidates = correlated.candidates(
            max_parents=asked.max_parents, min_gain=float(asked.min_gain)
        )
        return json_reply(StructureBody.of(proposed_structure(candidates, audit)))

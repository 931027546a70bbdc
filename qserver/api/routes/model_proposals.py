"""A structure for a network, proposed by a released model under a cap on what it could leak."""

from __future__ import annotations

from flask import Response

from qserver.api.bodies.model_proposal import StructureBody, StructureRequest
from qserver.api.operation import operation
from qserver.api.replies import json_reply
from qserver.api.routes.models import MODEL_CODES
from qserver.api.routes.views import Views, read_request
from qserver.models.tracing.cap import relation_of
from qserver.models.tracing.structure_proposal import proposed_structure


class ModelProposalViews(Views):
    """The view of proposals, on one service."""

    name = "model_proposals"
    place = "/v1/datasets/<dataset>/models"

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

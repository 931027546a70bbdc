"""What models cost before anything is spent: learning one, checking what one says."""

from __future__ import annotations

from flask import Response

from qserver.answering.models.price import would
from qserver.api.asking_replies import QUERY_CODES
from qserver.api.bodies.model import ModelQuestion, ModelRequest
from qserver.api.bodies.model_price import ModelExplanationBody, ModelQuestionPriceBody
from qserver.api.bodies.plan import ExplanationBody
from qserver.api.gate import caller_of_request
from qserver.api.operation import operation
from qserver.api.replies import json_reply
from qserver.api.routes.models import MODEL_CODES
from qserver.api.routes.views import Views, read_request
from qserver.records.answer import Explanation


class ModelPriceViews(Views):
    """The views of what models cost, on one service."""

    name = "model_prices"
    place = "/v1/datasets/<dataset>/models"

    @operation(
        "/explain",
        "models",
        {200: ModelExplanationBody},
        *MODEL_CODES,
        request=ModelRequest,
    )
    def explain_learning(self, dataset: str) -> Response:
        """Show what learning a model would cost, and which tables it would buy. Spends nothing."""
        asked = read_request(ModelRequest)
        found = self._service.models.explain(
            dataset,
            asked.kind,
            asked.document(),
            asked.epsilon_nano(),
            by=caller_of_request().account,
        )
        return json_reply(ModelExplanationBody.of(found))

    @operation(
        "/<model:model>/explain",
        "models",
        {200: ModelQuestionPriceBody},
        *MODEL_CODES,
        *[code for code in (*QUERY_CODES, "invalid_requirement") if code not in MODEL_CODES],
        request=ModelQuestion,
    )
    def explain_question(self, dataset: str, model: str) -> Response:
        """Show what a check of a model's answer, and its fallback, would cost. Spends nothing."""
        asked = read_request(ModelQuestion)
        reply = ModelQuestionPriceBody.of(self._service.models.learnt(dataset, model))
        if asked.form() != "count":
            # It costs nothing, and what it would be refused for it is refused for here.
            self._service.models.ask(dataset, model, asked.document())
            return json_reply(reply)
        query = self._service.parse(dataset, asked.count)
        estimate = reply.estimate = self._service.models.count(dataset, model, query)
        if asked.check is None:
            return json_reply(reply)
        by = caller_of_request().account
        requirement, fallback = asked.check.requirement(), asked.check.fallback()
        check = self._service.explain(dataset, query, requirement, by=by)
        reply.check = ExplanationBody.of(check)
        reply.would = would(estimate, known=_known(check))
        if fallback is not None:
            found = self._service.explain(dataset, query, fallback, by=by)
            reply.fallback = ExplanationBody.of(found)
        return json_reply(reply)


def _known(check: Explanation) -> tuple[float, float] | None:
    """The check's interval where history gives it."""
    if check.kind not in ("free", "exact") or check.free is None:
        return None
    return check.free.low, check.free.high

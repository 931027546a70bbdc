"""A kind of model is known to forms, pages and HTTP by the registry alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from werkzeug.datastructures import MultiDict

from qserver.answering.models.kinds import registry
from qserver.answering.models.kinds.kind import NETWORK_FACE, FormText, KindFace
from qserver.answering.models.kinds.network_kind import NetworkKind
from qserver.api.bodies.models import model_request
from qserver.portal.descriptions import model_words
from qserver.portal.faults import learning_fields
from qserver.portal.form_reader import LearnForm
from qserver.query.request_fields import NEEDED, Field
from tests.portal.portal_site import PEOPLE, Browser


class TreeKind(NetworkKind):
    """A made-up kind."""

    face: KindFace = replace(
        NETWORK_FACE,
        choice="Tree",
        meaning="a tree over all attributes",
        fields=(
            Field("root", "attribute at the root", "text", default=NEEDED),
            Field("depth", "of a `tree`: most edges from the root", "whole", default=3),
        ),
        text=FormText("root", "Root of the tree", "One.", "{0}", 1, lambda text: {"root": text}),
        words=lambda document, _names, _most: f"a tree from {document['root']}",
    )


@pytest.fixture
def with_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {**registry.KINDS, "tree": TreeKind()}
    monkeypatch.setattr(registry, "KINDS", kinds)


@pytest.mark.usefixtures("with_tree")
def test_a_new_kind_stands_in_the_form(browser: Browser) -> None:
    page = browser.text(f"{PEOPLE}/models?kind=tree&root=age")
    assert '<input type="radio" name="kind" value="tree" checked>' in page
    assert "Root of the tree" in page
    form = LearnForm.of(MultiDict({"kind": "tree", "root": "age"}))
    assert form.document() == {"root": "age"}
    assert learning_fields("tree").other.inputs == ("root",)
    assert model_words("tree", form.document(), ()) == "a tree from age"


@pytest.mark.usefixtures("with_tree")
def test_a_new_kind_stands_in_the_request() -> None:
    request: Any = model_request(registry.KINDS)
    names = list(request.model_json_schema()["properties"])
    assert names[:4] == ["kind", "network", "root", "epsilon"]
    assert names[-1] == "depth"
    described = request.model_fields["kind"].description
    assert described.endswith("; `tree`: a tree over all attributes")
    asked = request.read({"kind": "tree", "root": "age", "epsilon": 1})
    assert asked.document() == {"root": "age", "depth": 3}

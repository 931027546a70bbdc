"""Exact inference, held to the whole joint distribution and to pgmpy."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest

from qserver.errors import CapacityError, NetworkError
from qserver.models.network.network import Network
from qserver.models.network.structure import Structure, Variable
from qserver.models.network.variable_elimination import NetworkQuestions, width
from tests.benchmarks.published_networks import NAMES, published
from tests.models.network.brute_force import conditional, joint, random_network

REFERENCES = json.loads(
    (Path(__file__).parents[2] / "reference" / "network_answers.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_the_whole_joint_distribution(seed: int) -> None:
    network = random_network(seed)
    rng, questions = np.random.default_rng(seed), NetworkQuestions(network)
    likely = questions.most_probable().labels
    for _ in range(12):
        names = [str(n) for n in rng.permutation(network.names)]
        n_asked, n_observed = int(rng.integers(1, 4)), int(rng.integers(0, 4))
        asked = names[:n_asked]
        evidence = {n: likely[n] for n in names[n_asked : n_asked + n_observed]}
        expected = conditional(network, asked, evidence)
        found = questions.probability(asked, evidence)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
        best = questions.most_probable(asked, evidence)
        places = tuple(network.structure.label_index(network.structure.index(n), best.labels[n])
                       for n in asked)  # fmt: skip
        assert expected[places] == pytest.approx(expected.max(), rel=1e-12)
        assert best.log_probability == pytest.approx(log(expected.max()), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_the_most_probable_explanation_is_the_largest_cell(seed: int) -> None:
    network = random_network(seed)
    best = NetworkQuestions(network).most_probable()
    assert best.log_probability == pytest.approx(log(joint(network).max()), abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_answers_agree_with_pgmpy_to_ten_digits(name: str) -> None:
    """Values and version of pgmpy: tests/reference/network_answers.py."""
    questions = NetworkQuestions(published(name))
    cases = REFERENCES["networks"][name]
    assert len(cases["probabilities"]) >= 40
    for case in cases["probabilities"]:
        found = questions.probability(case["names"], case["evidence"])
        np.testing.assert_allclose(found.ravel(), case["values"], rtol=0, atol=1e-10)
    for case in cases["most_probable"]:
        best = questions.most_probable(case["names"], case["evidence"])
        assert best.labels == case["labels"]


def test_the_probability_of_evidence_is_a_product_of_conditionals() -> None:
    questions = NetworkQuestions(published("alarm"))
    found, evidence = 0.0, {}
    for name in ("HRBP", "CVP", "BP", "EXPCO2"):
        p = questions.probability([name], evidence)
        label = (
            published("alarm")
            .structure.variables[published("alarm").structure.index(name)]
            .labels[1]
        )
        found += log(p[1])
        evidence[name] = label
    assert questions.log_evidence(evidence) == pytest.approx(found, abs=1e-12)


def test_hundreds_of_observations_do_not_underflow() -> None:
    """The evidence has a probability near 1e-400, below the smallest float."""
    leaves = tuple(Variable(f"x{i}", ("0", "1"), ("root",)) for i in range(200))
    structure = Structure((Variable("root", ("0", "1")), *leaves))
    row = np.array([[0.99, 0.01], [0.98, 0.02]])
    network = Network(structure, (np.array([0.5, 0.5]), *[row] * 200))
    evidence = {leaf.name: "1" for leaf in leaves}
    found = NetworkQuestions(network).probability(["root"], evidence)
    assert log(found[1] / found[0]) == pytest.approx(200 * log(2), rel=1e-12)


def test_evidence_that_cannot_be_is_refused() -> None:
    evidence = {"lung": "yes", "either": "no"}
    for ask in (
        NetworkQuestions(published("asia")).probability,
        NetworkQuestions(published("asia")).most_probable,
    ):
        with pytest.raises(NetworkError, match="above zero"):
            ask(["smoke"], evidence)
    assert NetworkQuestions(published("asia")).log_evidence(evidence) == -float("inf")


def test_questions_name_known_variables_once() -> None:
    questions = NetworkQuestions(published("asia"))
    for names, evidence in (
        ([], {}),
        (["smoke", "smoke"], {}),
        (["smoke"], {"smoke": "yes"}),
        (["nobody"], {}),
        (["smoke"], {"nobody": "yes"}),
        (["smoke"], {"lung": "maybe"}),
    ):
        with pytest.raises(NetworkError):
            questions.probability(names, evidence)


def test_a_table_too_large_is_refused_before_it_is_made() -> None:
    roots = tuple(Variable(f"x{i}", tuple(map(str, range(32)))) for i in range(6))
    structure = Structure(roots)
    network = Network(structure, tuple(np.full(32, 1 / 32) for _ in roots))
    with pytest.raises(CapacityError, match="1,073,741,824"):
        NetworkQuestions(network).probability([v.name for v in roots])


def test_widths_of_the_published_networks_are_their_treewidths() -> None:
    """Known treewidths of the moral graphs: 2, 3, 3 and 4."""
    assert [width(published(name).structure, most=4) for name in NAMES] == [2, 3, 3, 4]
    assert width(published("alarm").structure, most=3) is None

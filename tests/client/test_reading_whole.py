"""Other readings of a posterior, from the Python client and the command line over real HTTP."""

from __future__ import annotations

import pytest

from qserver.cli.main import main
from qserver.client import QuestionProblemError
from qserver.query.asking.method_and_prior import Prior
from tests.client.serving import Served, client_of

Out = pytest.CaptureFixture[str]
WOMEN = {"where": {"sex": "Female"}}
FEW = {"where": {"sex": "Female", "age": {"between": [22, 22]}}}


def test_an_answer_says_how_it_was_read(served: Served) -> None:
    client = client_of(served)
    first = client.query("people", WOMEN, length=40, method="monte-carlo", draws=20_000)
    told = first.statement
    assert told is not None
    assert (told.law, told.method, told.draws, told.step) == (
        "posterior",
        "monte-carlo",
        20_000,
        None,
    )
    assert "by Monte Carlo with 20,000 draws" in repr(first)
    again = client.query("people", WOMEN, length=40, method="monte-carlo", draws=20_000)
    assert again.interval == first.interval
    exact = client.query("people", WOMEN, length=40)
    assert exact.statement is not None
    assert exact.statement.reading == ""
    assert exact.interval.length < first.interval.length
    finer = client.query("people", WOMEN, length=40, method="convolution", step=0.5, error=0.001)
    assert "by convolution with a step of 0.5" in repr(finer)
    assert finer.cost.charged == 0.0


def test_a_prior_is_told_and_cuts_answers_and_probabilities(served: Served) -> None:
    client = client_of(served)
    found = client.query("people", FEW, length=400, prior="non-negative")
    assert found.interval.low >= 0.0
    assert found.statement is not None
    assert found.statement.prior == Prior("non-negative", 0.0)
    assert "held to be at least 0" in repr(found)
    plain = client.probability("people", FEW, at_least=0)
    assert float(plain) == plain < 1.0
    assert client.probability("people", FEW, at_least=0, prior="non-negative") == 1.0
    within = client.probability("people", FEW, at_least=3, prior={"between": (0, 4)})
    assert 0.1 < within < 0.4
    assert within.statement is not None
    assert within.statement.prior == Prior("between", 0.0, 4.0)
    with pytest.raises(QuestionProblemError, match="number of records is not public"):
        client.query("people", FEW, length=400, prior="known-total")
    with pytest.raises(QuestionProblemError, match="`step` must be left out"):
        client.probability("people", FEW, at_least=3, step=1.0)


def run(served: Served, out: Out, *args: str) -> tuple[int, str, str]:
    """Exit code and output of a command."""
    code = main([*args, "--url", served.url])
    return code, *out.readouterr()


def test_the_command_line_reads_by_a_method_and_under_a_prior(served: Served, capsys: Out) -> None:
    client_of(served).query("people", FEW, length=400)
    where = ("people", "--where", "sex=Female", "--where", "age=22")
    ask = ("query", *where, "--length", "400")
    code, text, _ = run(served, capsys, *ask, "--method", "convolution", "--prior", "non-negative")
    assert code == 0
    assert "by convolution with a step of" in text
    assert "held to be at least 0; each probability within" in text
    code, text, _ = run(served, capsys, *ask, "--method", "monte-carlo", "--draws", "20000")
    assert "by Monte Carlo with 20,000 draws; each probability within 0.0" in text
    ask = ("probability", *where, "--at-least", "3")
    code, text, _ = run(served, capsys, *ask, "--prior=-1,4")
    assert (code, text.splitlines()[1]) == (
        0,
        "held to lie from -1 to 4; each probability within 0",
    )
    code, text, _ = run(served, capsys, *ask, "--error", "0.001")
    assert (code, len(text.splitlines())) == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--step", "1"), "`--step` must be left out unless `--method` is `convolution`"),
        (("--draws", "20000"), "`--draws` must be left out unless `--method` is `monte-carlo`"),
        (("--method", "monte-carlo", "--draws", "5"), "`--draws` must be a whole number from"),
        (("--error", "0.5"), "`--error` must lie from 0.001 to 0.01"),
        (("--prior", "positive"), "`--prior` must be `non-negative`, `known-total`"),
        (("--prior", "4,3"), "`--prior` must be `non-negative`, `known-total`"),
    ],
)
def test_an_option_that_means_nothing_is_named(
    served: Served, capsys: Out, options: tuple[str, ...], message: str
) -> None:
    code, _, problem = run(served, capsys, "probability", "people", "--at-least", "3", *options)
    assert code == 2
    assert message in problem

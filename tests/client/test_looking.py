"""Numbers that were picked out, from the Python client and the command line over real HTTP."""

from __future__ import annotations

import math

import pytest

from qserver.cli.main import main
from qserver.client import QuestionProblemError, Selection, Table
from qserver.errors import ConfigError
from tests.client.serving import Served, client_of

Out = pytest.CaptureFixture[str]
BY_AGE = "SELECT age, COUNT(*) FROM people GROUP BY age WITHIN 20"
WOMEN = {"where": {"sex": "Female"}}
WIDER = math.log(11 / 0.05) / math.log(20)


def test_rows_that_a_statement_chooses_say_so_on_every_face(served: Served, capsys: Out) -> None:
    client = client_of(served)
    whole = client.sql(BY_AGE)
    text = BY_AGE.replace("WITHIN", "ORDER BY 2 DESC LIMIT 2 WITHIN")
    assert client.price(text).whole_table
    assert not client.price(BY_AGE).whole_table
    table = client.sql(text)
    assert [picked.estimate for picked in whole.largest(2)] == [c.estimate for [c] in table.cells]
    assert table.selected_from == Selection(11, "largest", 2)
    assert table.cost.charged == 0
    assert ", all of the 2 largest of 11; " in table.notes()[0]
    # Those of the statement know that there are two, so they are shorter.
    for picked, [cell] in zip(whole.largest(2), table.cells, strict=True):
        assert picked.interval.low == cell.interval.low
        assert cell.interval.high < picked.interval.high
    assert main(["sql", text, "--url", served.url]) == 0
    assert ", all of the 2 largest of 11; " in capsys.readouterr().out
    assert client.sql(BY_AGE.replace("WITHIN", "HAVING COUNT(*) > 1e9 WITHIN")).records() == []


def test_a_table_says_in_one_line_what_holds_and_gives_its_largest(served: Served) -> None:
    table = client_of(served).sql(BY_AGE)
    assert table.notes()[1] == table.looking in repr(table)
    assert "All 11 at once: +-36" in table.looking
    assert "The largest: -36" in table.looking
    [top] = table.largest()
    named = [cell.estimate for (key,), [cell] in zip(table.keys, table.cells, strict=True) if key]
    assert len(named) == len(table) - 1
    best = max(named)
    assert top.estimate == best
    alone = table[top.key]
    assert not isinstance(alone, tuple)
    assert best - top.interval.low == pytest.approx(WIDER * alone.interval.half_width, rel=1e-3)
    assert top.interval.high == pytest.approx(alone.interval.high)
    few = table.largest(3)
    assert [p.estimate for p in few] == sorted((p.estimate for p in few), reverse=True)
    assert few[0].interval.high > top.interval.high
    [last] = table.least()
    assert last.estimate == min(named) > table[None].estimate
    assert None in [picked.key[0] for picked in table.least(11)]
    with pytest.raises(ConfigError, match="from 1 to 11"):
        table.largest(12)


def test_a_table_asked_for_its_three_largest_has_shorter_intervals_for_them(
    served: Served,
) -> None:
    client = client_of(served)
    rough = client.sql(BY_AGE).largest(3)
    table = client.sql(f"{BY_AGE} AS LARGEST 3 OF 11")
    assert table.cost.charged == 0
    assert table.selected_from == Selection(11, "largest", 3)
    assert "all of the 3 largest of 11" in repr(table)
    for sharp, long in zip(table.largest(3), rough, strict=True):
        assert sharp.interval.length < long.interval.length
    with pytest.raises(ConfigError, match="allow for this choice"):
        table.largest(4)


def test_a_workload_has_the_same_readings_as_a_table(served: Served) -> None:
    client = client_of(served)
    queries = {str(age): {"where": {"age": age}} for age in range(20, 30)}
    table = client.workload("people", queries, length=40)
    assert isinstance(table, Table)
    assert "All 10 at once" in table.looking
    again = client.workload("people", queries, length=40, selected_from=Selection(10))
    assert again.cost.charged == 0
    assert again.largest()[0].interval == table.largest()[0].interval
    together = client.workload("people", queries, length=400, simultaneous=True)
    assert together.looking == ""
    assert len(together.largest(4)) == 4


def test_a_question_names_its_choice_or_asks_for_fresh_noise(served: Served) -> None:
    client = client_of(served)
    plain = client.query("people", WOMEN, length=40)
    top = client.query("people", WOMEN, length=40, selected_from=Selection(11))
    same = client.query("people", WOMEN, length=40, selected_from={"m": 11, "rule": "largest"})
    assert top == same
    assert top.cost.charged == 0
    assert top.interval.length > plain.interval.length
    assert "as the largest of 11" in repr(top)
    fresh = client.query("people", WOMEN, length=40, independent=True)
    price = client.explain("people", WOMEN, length=40, independent=True)
    assert fresh.cost.charged == price.price == plain.cost.charged
    with pytest.raises(QuestionProblemError, match="left out"):
        client.query("people", WOMEN, length=40, independent=True, selected_from=Selection(2))


def test_independent_sql_that_becomes_a_job_is_charged_once(served: Served) -> None:
    """The client sends the statement again under its key: no second measurement."""
    client = client_of(served)
    text = "SELECT COUNT(*) FROM people WHERE age = 23 WITHIN 20"
    cost = client.sql(text).cost.charged
    table = client.sql(f"{text} INDEPENDENT")
    assert table.cost.charged == cost
    [row] = table.cells
    assert row[0].source == "measured"


def test_the_command_line_says_what_was_looked_at(served: Served, capsys: Out) -> None:
    client = client_of(served)
    client.query("people", WOMEN, length=40)
    ask = ["query", "people", "--where", "sex=Female", "--length", "40", "--url", served.url]
    assert main([*ask, "--largest-of", "11", "--first", "2"]) == 0
    assert "all of the 2 largest of 11" in capsys.readouterr().out
    assert main(["explain", *ask[1:], "--independent"]) == 0
    assert "price: 0\n" not in capsys.readouterr().out
    assert main([*ask, "--first", "2"]) != 0
    assert "--largest-of or --least-of" in capsys.readouterr().err
    assert main([*ask, "--least-of", "2", "--first", "3"]) != 0
    assert "`--first` must be a whole number from 1" in capsys.readouterr().err


def test_the_command_line_shows_the_line_below_a_workload(served: Served, capsys: Out) -> None:
    client = client_of(served)
    wheres = [{"age": age} for age in range(20, 30)]
    client.workload("people", [{"where": w} for w in wheres], length=40)
    document = str([{"query": {"where": w}} for w in wheres]).replace("'", '"')
    ask = ["workload", "people", document, "--length", "40", "--url", served.url]
    assert main(ask) == 0
    assert "All 10 at once" in capsys.readouterr().out
    assert main([*ask, "--largest-of", "10"]) == 0
    assert "as the largest of 10" in capsys.readouterr().out


def test_the_command_line_shows_how_probable_a_number_is(served: Served, capsys: Out) -> None:
    client = client_of(served)
    answer = client.query("people", WOMEN, length=40)
    ask = ["probability", "people", "--where", "sex=Female", "--url", served.url]
    low, high = (str(end) for end in answer.interval)
    assert main([*ask, "--at-least", str(answer.estimate)]) == 0
    assert capsys.readouterr().out == "probability: 0.5\n"
    assert main([*ask, "--between", low, high]) == 0
    assert float(capsys.readouterr().out.split()[1]) == pytest.approx(0.95, abs=1e-4)
    with pytest.raises(SystemExit):
        main(ask)

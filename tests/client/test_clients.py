"""Both clients against a real server: answers, jobs, retries that charge once, refusals."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import qserver
from qserver.client import (
    Answer,
    AsyncClient,
    BudgetProblemError,
    Client,
    NotDoneError,
    QuestionProblemError,
    ServerProblemError,
    ServerUnreachableError,
    Table,
)
from qserver.client.clients import AsyncModels, Models
from qserver.errors import ConfigError
from tests.client.serving import Served, client_of
from tests.deployment import ROWS

WOMEN = {"where": {"sex": "Female"}}
N_WOMEN = sum(sex == "Female" for _, sex in ROWS)
SURE = 0.999999
Ask = Callable[..., Any]


def plain(served: Served, **options: Any) -> Ask:
    """Calls of a Client; the worker works off its jobs while it waits."""

    def work(_seconds: float) -> None:
        served.town.work_off()

    client = Client(served.url, **{"sleep": work, **options})
    return lambda method, *args, **kwargs: getattr(client, method)(*args, **kwargs)


def awaited(served: Served, **options: Any) -> Ask:
    """Calls of an AsyncClient, each in an event loop of its own."""

    async def work(_seconds: float) -> None:
        served.town.work_off()

    client = AsyncClient(served.url, **{"sleep": work, **options})
    return lambda method, *args, **kwargs: asyncio.run(getattr(client, method)(*args, **kwargs))


both = pytest.mark.parametrize("make", [plain, awaited])


@both
def test_a_question_waits_for_its_job_and_is_free_afterwards(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    price = ask("explain", "people", WOMEN, length=40, confidence=SURE)
    assert price.free == (None,)
    first = ask("query", "people", WOMEN, length=40, confidence=SURE)
    assert isinstance(first, Answer)
    assert N_WOMEN in first.interval
    assert first.interval.length <= 40
    assert first.cost.charged == price.price > 0
    again = ask("query", "people", "SELECT COUNT(*) FROM people WHERE sex = 'Female'", length=40)
    assert (again.source, again.cost.charged) == ("history", 0)
    assert float(again) == first.estimate
    assert ask("probability", "people", WOMEN, at_least=N_WOMEN - 100) > 0.99
    assert ask("probability", "people", WOMEN, between=(0, N_WOMEN - 100)) < 0.01
    assert ask("explain", "people", WOMEN, length=40, confidence=SURE).free == (first.interval,)


@both
@pytest.mark.parametrize("n_lost", [1, 3])
def test_a_reply_that_gets_lost_is_asked_for_again_and_charged_once(
    make: Callable[[Served], Ask], served: Served, n_lost: int
) -> None:
    """Every request that reached the server carried one key, and the ledger has one charge."""
    ask = make(served)
    served.front.to_lose = n_lost
    answer = ask("query", "people", WOMEN, length=40)
    assert len(set(served.front.keys)) == 1
    assert "" not in served.front.keys
    assert len(served.front.keys) > n_lost
    assert served.n_charges() == 1
    assert served.spent_nano() == round(answer.cost.charged * 1e9) > 0


@pytest.mark.slow
@pytest.mark.parametrize("n_lost", [0, 2])
def test_a_statement_says_what_all_of_its_steps_cost(served: Served, n_lost: int) -> None:
    """Each step becomes a job at once, and the statement is sent again for the next."""
    served.front.to_lose = n_lost
    text = "SELECT AVG(age) FROM people WITHIN 0.1 ASSUMING AT LEAST 100"
    table = client_of(served).sql(text)
    assert served.n_charges() > 1
    assert served.spent_nano() == round(table.cost.charged * 1e9)


@both
def test_two_calls_have_two_keys(make: Callable[[Served], Ask], served: Served) -> None:
    ask = make(served)
    for _ in range(2):
        ask("query", "people", WOMEN, length=40)
    assert len(set(served.front.keys)) == 2


@pytest.mark.slow
@both
def test_a_statement_gives_a_table(make: Callable[[Served], Ask], served: Served) -> None:
    ask = make(served)
    text = (
        "SELECT sex, COUNT(*), AVG(age) WITHIN 20 FROM people GROUP BY sex WITHIN 20 ASSUMING 100"
    )
    price = ask("price", text)
    table = ask("sql", text)
    assert isinstance(table, Table)
    assert (table.groups, table.columns) == (("sex",), ("COUNT(*)", "AVG(age)"))
    assert [key for (key,) in table.keys] == ["Female", "Male", None]
    assert [key for (key,) in table.group_texts()] == ["Female", "Male", "NULL"]
    assert table[None] == table.cells[2]
    count, mean = table["Female"]  # type: ignore[misc]
    assert abs(count.estimate - N_WOMEN) < 100
    assert 20 <= mean.interval.low <= mean.estimate <= mean.interval.high <= 29
    assert price.price >= served.spent_nano() / 1e9 > 0
    assert ask("price", "EXPLAIN " + text).price == 0


@both
def test_a_workload_gives_a_row_per_question(make: Callable[[Served], Ask], served: Served) -> None:
    ask = make(served)
    queries = {"women": WOMEN, "men": {"where": {"sex": "Male"}}}
    table = ask("workload", "people", queries, length=40, simultaneous=True)
    assert table.simultaneous >= 0.95
    assert abs(table["women"].estimate - N_WOMEN) < 100
    unnamed = ask("workload", "people", list(queries.values()), length=40)
    assert unnamed.keys == (("0",), ("1",))
    assert unnamed.cost.charged == 0


@both
def test_consistent_values_come_beside_the_answers_for_nothing(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    queries = {"women": WOMEN, "all": {"where": {}}}
    plain = ask("workload", "people", queries, length=40)
    spent = served.spent_nano()
    table = ask("workload", "people", queries, length=40, consistent=True)
    assert served.spent_nano() == spent
    women, everyone = table["women"], table["all"]
    assert 0 <= women.consistent <= everyone.consistent
    assert women.interval == plain["women"].interval
    assert table.records()[0]["answer_consistent"] == women.consistent
    assert (plain.has_consistent, plain["women"].consistent) == (False, None)
    by_sql = ask("sql", "SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 20 CONSISTENT")
    assert all(cells[0].consistent >= 0 for cells in by_sql.cells)


@both
def test_datasets_tell_their_budget_and_attributes(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    [one] = ask("datasets")
    assert (one.name, one.limit, one.spent, one.remaining) == ("people", 1000, 0, 1000)
    assert ask("dataset", "people").attributes == ("age", "sex")


@both
def test_refusals_are_exceptions_with_their_facts(
    make: Callable[[Served], Ask], served: Served
) -> None:
    ask = make(served)
    with pytest.raises(BudgetProblemError) as over:
        ask("query", "people", WOMEN, length=1e-3)
    assert over.value.code == "budget_exhausted"
    assert over.value.facts["price"] > over.value.facts["remaining"] == 1000
    with pytest.raises(QuestionProblemError, match="Did you mean 'Female'") as wrong:
        ask("sql", "SELECT COUNT(*) FROM people WHERE sex = 'female' WITHIN 9")
    assert (wrong.value.facts["line"], wrong.value.facts["column"]) == (1, 41)
    with pytest.raises(ServerProblemError) as missing:
        ask("dataset", "nobody")
    assert (missing.value.code, missing.value.status) == ("not_found", 404)
    with pytest.raises(ConfigError, match="`price` tells"):
        ask("sql", "EXPLAIN SELECT COUNT(*) FROM people WITHIN 9")
    with pytest.raises(ConfigError, match="not both"):
        ask("probability", "people", WOMEN)
    assert served.spent_nano() == 0


@both
@pytest.mark.parametrize("lead", ["", "EXPLAIN ", "  explain\n", "\n  ", "-- men\n"])
def test_a_refused_price_points_at_the_place_in_the_text_as_it_was_given(
    make: Callable[[Served], Ask], served: Served, lead: str
) -> None:
    text = lead + "SELECT COUNT(*) FROM people WHERE sex = 'male' WITHIN 9"
    with pytest.raises(QuestionProblemError) as wrong:
        make(served)("price", text)
    before = text[: text.index("'male'")]
    line_start = before.rfind("\n") + 1
    place = (before.count("\n") + 1, len(before) - line_start + 1)
    facts = wrong.value.facts
    assert (facts["line"], facts["column"]) == place
    assert f"line {place[0]}, column {place[1]}" in str(wrong.value)
    excerpt = text[line_start:].split("\n")[0] + "\n" + " " * (place[1] - 1) + "^" * len("'male'")
    assert facts["excerpt"] == excerpt


@both
def test_where_no_server_answers_it_is_tried_again_and_said(
    make: Callable[..., Ask], served: Served
) -> None:
    pauses: list[float] = []

    async def later(seconds: float) -> None:
        pauses.append(seconds)

    sleep = pauses.append if make is plain else later
    served.front.to_lose = 9
    ask = make(served, retries=3, sleep=sleep)
    with pytest.raises(ServerProblemError, match="502"):
        ask("query", "people", WOMEN, length=40)
    assert pauses == [0.2, 0.4, 0.8]
    with pytest.raises(ServerUnreachableError):
        (Client("http://127.0.0.1:9", retries=0)).datasets()


def test_a_job_that_takes_too_long_is_told_and_goes_on(served: Served) -> None:
    ask = plain(served, wait_s=0.0)
    with pytest.raises(NotDoneError, match="answered at no cost"):
        ask("query", "people", WOMEN, length=40)
    served.town.work_off()
    assert ask("query", "people", WOMEN, length=40).source == "history"


@pytest.mark.parametrize(("waiting", "awaiting"), [(Client, AsyncClient), (Models, AsyncModels)])
def test_methods_of_both_clients_show_the_same_signature_and_help(
    waiting: type[Any], awaiting: type[Any]
) -> None:
    names = {name for name in vars(waiting) if not name.startswith("_")}
    assert names == {name for name in vars(awaiting) if not name.startswith("_")}
    for name in names:
        one, other = getattr(waiting, name), getattr(awaiting, name)
        assert inspect.signature(one) == inspect.signature(other)
        assert inspect.getdoc(one) == inspect.getdoc(other) != ""
        assert (one.__name__, one.__qualname__) == (name, f"{waiting.__name__}.{name}")
        assert inspect.iscoroutinefunction(other)
        assert not inspect.iscoroutinefunction(one)
    assert inspect.signature(Client.query).return_annotation == "Answer"


def test_the_package_has_the_clients() -> None:
    assert qserver.Client is Client
    assert qserver.AsyncClient is AsyncClient
    with pytest.raises(AttributeError):
        _ = qserver.Clients

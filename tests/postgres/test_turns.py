"""Costly statements hold up no others: what waits for what, shown by lanes that are taken."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any

import pytest

from qserver.postgres.catalogue import engine
from qserver.postgres.catalogue.engine import Catalogue
from qserver.postgres.limits import Limits
from qserver.postgres.results import table
from qserver.postgres.statements import dataset_answers
from qserver.postgres.statements import turns as module
from qserver.postgres.statements.asker import Shown
from qserver.postgres.statements.dataset_answers import Answerer
from qserver.postgres.statements.processes import Calculator
from qserver.postgres.statements.turns import LONG_TEXT, Lane, Turns, Use
from qserver.postgres.wire.messages import GoneError, Stream
from qserver.query.sql.tables.catalogue_relations import Names
from tests.deployment import Deployment
from tests.postgres.client import TIMEOUT_S, connected
from tests.service.test_statements import answered

FREE = "SELECT sex, COUNT(*) AS n FROM people WHERE age < {} GROUP BY sex"
LONG = "SELECT count(*) FROM " + ", ".join(f"pg_type t{i}" for i in range(9))
NAMES = Names("q", "ada", 7, (), ())


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds, which other threads bring about."""
    never = threading.Event()
    while not holds():
        never.wait(0.001)


@contextlib.contextmanager
def taken(*lanes: Lane) -> Iterator[None]:
    for lane in lanes:
        lane.enter(0.0, bool)
    try:
        yield
    finally:
        for lane in lanes:
            lane.leave()


def test_who_took_least_goes_next_however_many_wait() -> None:
    lane, order = Lane(), list[float]()

    def go(number: float) -> None:
        lane.enter(number, bool)
        order.append(number)
        lane.leave()

    numbers = [*(float(10 + i) for i in range(32)), 1.0]
    threads = [threading.Thread(target=go, args=(number,)) for number in numbers]
    with taken(lane):
        for thread in threads:
            thread.start()
        until(lambda: len(lane._waiting) == len(threads))
    for thread in threads:
        thread.join()
    assert order == sorted(numbers)


def test_who_has_gone_waits_for_no_turn() -> None:
    lane = Lane()
    with taken(lane):
        with pytest.raises(GoneError):
            lane.enter(0.0, lambda: True)
        assert lane._waiting == []
    lane.enter(0.0, bool)  # it is free again


def test_costly_forms_and_new_ones_have_lanes_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By what they took: those that differ in numbers and quoted texts alone are one form."""
    turns, use = Turns(), Use()

    def lane_of(text: str, seconds: float, method: str = "run") -> str:
        lanes = {"first": turns.first, "short": turns.short, "costly": turns.costly}
        with turns.of(use, text, method):
            (name,) = [name for name, lane in lanes.items() if not lane._free]
            used.append(used[-1] + seconds)
        return name

    used = [0.0]
    monkeypatch.setattr(module, "_used_s", lambda _: used[-1])
    light, costly = "n < {} AND sex = 'F{}'", "n{} JOIN"
    assert [lane_of(light.format(i, i), 0.01) for i in range(3)] == ["first", "short", "short"]
    assert [lane_of(costly.format(i), 1.0) for i in range(3)] == ["first", "costly", "costly"]
    # One that took longer says nothing, and two do.
    assert [lane_of(light.format(0, 0), 1.0) for _ in range(3)] == ["short", "short", "costly"]
    assert lane_of(costly.format(0), 0.01, "columns") == "first"  # it is described, not run
    assert lane_of("x" * 36_000, 0.01) == "costly"  # of which nothing is known but its length
    with taken(turns.costly, turns.short), turns.of(use, "new"):
        assert turns.first._free == 0  # a storm of new ones holds up none that is known


def test_a_statement_goes_on_where_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process has read the history; another one would have to do all of it again."""
    used = iter(range(100))
    monkeypatch.setattr(module, "_used_s", lambda _: float(next(used)))
    turns, use, other = Turns(), Use(), Use()
    with turns.of(use, "SELECT"):
        assert not turns.first._free
    with turns.of(use, "SELECT", goes_on=True):
        assert not turns.first._free
    for one, goes_on in ((other, True), (use, False), (use, True)):
        with turns.of(one, "SELECT", goes_on=goes_on):
            assert not turns.costly._free


def test_the_reading_of_a_history_makes_no_statement_costly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = [0.0]
    monkeypatch.setattr(module, "_used_s", lambda _: used[-1])
    turns, use = Turns(), Use()
    for _ in range(3):
        with turns.of(use, "SELECT"):
            used.append(used[-1] + 60.0)
            use.read_s = 59.99
    with turns.of(use, "SELECT"):
        assert not turns.short._free


def test_a_long_history_is_read_at_no_cost_to_a_statement(town: Deployment) -> None:
    """What a statement may take of the processor begins once its process knows the history."""

    class Process(Calculator):
        def ask(self, method: str, call: object, *, most_s: float | None = None) -> Any:
            asked.append((method, most_s))
            return getattr(Answerer(service), method)(call)

    asked, service = list[tuple[str, float | None]](), town.service()
    turns = Turns([Process(clock=lambda _: 0.0) for _ in range(3)])
    with connected(service, turns=turns) as client:
        client.start()
        client.query("SET qserver.spend = on")
        sent = threading.Thread(target=client.query, args=(f"{FREE.format(25)} WITHIN 20",))
        sent.start()
        while sent.is_alive():
            town.work_off()
        sent.join(TIMEOUT_S)
        client.query("SELECT count(*) FROM nothing")
    runs = [one for one in asked if one[0] != "columns"]
    assert len(runs) >= 4
    assert set(zip(runs[::2], runs[1::2], strict=True)) == {(("read", inf), ("run", None))}


def test_messages_are_read_one_at_a_time_and_long_ones_apart() -> None:
    turns, one, other = Turns(), Use(), Use()
    with turns.reading(one, LONG_TEXT + 1), turns.reading(other, 10):
        assert (one.lane, other.lane) == (turns.texts, turns.words)
    with turns.reading(one, 10):
        with turns.of(one, ""), taken(*[turns.words] * module._WORDS):
            pass  # who asks gives up its turn here, and so does who waits for its client
        with turns.paused(), taken(*[turns.words] * module._WORDS):
            pass
        assert turns.words._free == module._WORDS - 1
    assert (turns.words._free, turns.texts._free) == (module._WORDS, 1)


def test_an_answer_that_is_kept_waits_for_nobody(town: Deployment) -> None:
    answered(town, f"{FREE.format(25)} WITHIN 20")
    turns, join = Turns(), partial(connected, town.service(), shown=Shown())
    with join(turns=turns) as client, join(turns=turns) as other:
        for one in (client, other):
            one.start()
        first = client.query(FREE.format(25))
        assert len(first.rows) == 3
        with taken(turns.first, turns.short, turns.costly):
            assert other.query(FREE.format(25)).rows == first.rows
            assert other.query("SHOW qserver.spend").rows == [["off"]]


def test_rows_of_an_answer_that_is_kept_are_made_once(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each way that they are asked for: rounded for people, without intervals, or in full."""
    answered(town, f"{FREE.format(25)} WITHIN 20")
    service, turns, made = town.service(), Turns(), list[object]()
    monkeypatch.setattr(dataset_answers, "table", lambda *of: made.append(of) or table(*of))
    with connected(service, turns=turns) as client:
        client.start()
        whole, again = (client.query(FREE.format(25)) for _ in range(2))
        assert (whole.rows, whole.of(b"N")) == (again.rows, again.of(b"N"))
        assert len(made) == 1
        client.query("SET qserver.intervals = off")
        assert client.query(FREE.format(25)).rows == [row[:2] for row in whole.rows]
        client.query("SET qserver.rounded = on")
        assert client.query(FREE.format(25)).rows != [row[:2] for row in whole.rows]
        assert len(made) == 3


def test_a_new_answer_waits_for_no_costly_one(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(town, f"{FREE.format(25)} WITHIN 20")
    monkeypatch.setattr(module, "_LITTLE_S", float("inf"))  # however slow the machine is
    turns = Turns()
    with connected(town.service(), turns=turns) as client:
        client.start()
        with taken(turns.costly, turns.short):
            assert len(client.query(FREE.format(25)).rows) == 3
        with taken(turns.costly, turns.first):
            assert b"WITHIN" in client.query(FREE.format(24)).of(b"E")[0]  # known, and not free
        with taken(turns.short):
            sent = threading.Thread(target=client.query, args=(FREE.format(23),))
            sent.start()
            until(lambda: len(turns.short._waiting) == 1)
        sent.join(TIMEOUT_S)
        assert not sent.is_alive()


@pytest.mark.slow
def test_long_statements_of_the_catalogue_leave_the_places_of_quick_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All places of the long ones are taken, and of quick ones there are fewer than statements."""
    pairs = [socket.socketpair() for _ in range(6)]
    stop, stopper = socket.socketpair()
    streams = [
        Stream(ours, stop, Limits(idle_s=60, message_s=60, max_bytes=1000)) for ours, _ in pairs
    ]
    catalogues = [Catalogue(stream) for stream in streams]

    def long(catalogue: Catalogue) -> None:
        with pytest.raises(GoneError):
            catalogue.run(LONG, NAMES, ())

    threads = [threading.Thread(target=long, args=(one,)) for one in catalogues[1:]]
    with taken(engine._long, engine._long):
        for thread in threads:
            thread.start()
        until(lambda: len(engine._long._waiting) == len(threads))
        monkeypatch.setattr(engine, "_QUICK_S", float("inf"))
        assert len(catalogues[0].run("SELECT typname FROM pg_type LIMIT 3", NAMES, ()).rows) == 3
        for _, theirs in pairs[1:]:
            theirs.close()
        for thread in threads:
            thread.join(TIMEOUT_S)
            assert not thread.is_alive()
    catalogues[0].close()
    for one in (*(one for pair in pairs for one in pair), stop, stopper):
        one.close()

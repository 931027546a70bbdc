"""A process that answers statements ends when one takes too long, and another one goes on."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest

from qserver.postgres.statements.processes import Calculator, serve
from qserver.postgres.statements.turns import Turns, Use
from qserver.postgres.wire.faults import PostgresError


class Stubborn:
    """Answers of a process that does what it is told."""

    def number(self, _: object) -> int:
        """Its own."""
        return os.getpid()

    def refuses(self, _: object) -> None:
        """Not the process ends, but the call."""
        raise PostgresError("42601", "No.", hint="Yes.", position=7)

    def breaks(self, _: object) -> None:
        """What nobody expected."""
        raise AssertionError("SELECT secret")

    def ends(self, _: object) -> None:
        """As the system would end it."""
        os._exit(9)

    def never_ends(self, _: object) -> None:
        """Computes for ever, and lets no exception through."""
        while True:
            try:
                while True:
                    pass
            except BaseException:  # noqa: BLE001
                pass


def stubborn(pipe: Connection, niceness: int) -> None:
    os.nice(niceness)
    serve(pipe, Stubborn())


@pytest.fixture
def made() -> Iterator[Callable[..., Calculator]]:
    """Makes calculators, whose processes take no time unless a clock says it."""
    found = list[Calculator]()

    def make(niceness: int = 0, clock: Callable[[int], float] = lambda _: 0.0) -> Calculator:
        found.append(Calculator(niceness, serve=stubborn, clock=clock))
        return found[-1]

    yield make
    for one in found:
        one.end()


@pytest.mark.slow
def test_what_takes_too_long_ends_wherever_it_is(made: Callable[..., Calculator]) -> None:
    """Whatever it catches; the next call is answered by another process."""
    times = [0.0]
    one = made(clock=lambda _: times[0] if len(times) == 1 else times.pop(0))
    before = one.ask("number", None)
    assert one.ask("number", None) == before
    times[:] = [0.0, 60.0]
    assert one.ask("number", None, most_s=math.inf) == before
    times[:] = [0.0, 4.9, 5.0, 5.1]
    with pytest.raises(PostgresError, match="more than 5 s of the processor") as caught:
        one.ask("never_ends", None)
    assert (caught.value.state, caught.value.hint) == ("57014", "Ask its parts.")
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    assert one.ask("number", None) not in (before, os.getpid())


@pytest.mark.slow
def test_what_a_process_refuses_is_told_and_what_ends_it_ends_it_alone(
    made: Callable[..., Calculator],
) -> None:
    one = made(3)
    before = one.start()
    with pytest.raises(PostgresError) as caught:
        one.ask("refuses", None)
    assert vars(caught.value) == vars(PostgresError("42601", "No.", hint="Yes.", position=7))
    assert one.ask("number", None) == before
    assert os.getpriority(os.PRIO_PROCESS, before) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    with pytest.raises(PostgresError, match="Its log says why") as caught:
        one.ask("breaks", None)
    assert "secret" not in str(vars(caught.value))
    with pytest.raises(RuntimeError, match="ended"):
        one.ask("ends", None)
    assert one.ask("number", None) != before


@pytest.mark.slow
def test_a_lane_computes_in_its_process_and_learns_what_that_took(
    made: Callable[..., Calculator],
) -> None:
    """By the clock that is given, each look at which is 4 s later."""
    ticks = itertools.count(step=4)
    turns, use = Turns([made(clock=lambda _: float(next(ticks))) for _ in range(3)]), Use()
    for lane in (turns.first, turns.short, turns.costly):
        assert lane.process is not None
        lane.process.start()
    for lane in (turns.first, turns.costly):
        with turns.of(use, "SELECT") as process:
            assert process is lane.process

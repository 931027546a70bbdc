"""A start waits for what the last one left behind: with one line, and not for ever."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace

import pytest

from qserver.cli.console import Console
from qserver.cli.local import serve
from qserver.cli.local.serve import WAIT_S, patiently
from qserver.cli.processes import StopSignals
from qserver.cli.runtime import Runtime
from qserver.errors import PortInUseError, StateInUseError, StoreError, StoreUnavailableError


@dataclass
class World:
    """A clock that only waiting moves, and what was said."""

    now: float = 0.0
    output: io.StringIO = field(default_factory=io.StringIO)
    stops_at: float = 10.0**6
    found_at: float = 10.0**6
    refusal: StoreError | PortInUseError = field(default_factory=lambda: PortInUseError("Taken."))

    @property
    def runtime(self) -> Runtime:
        console = Console(out=io.StringIO(), err=self.output)
        return Runtime(console, {}, clock=lambda: self.now)

    def find(self) -> float:
        if self.now < self.found_at:
            raise self.refusal
        return self.now

    def wait(self) -> float:
        return patiently(
            self.find,
            passing=(PortInUseError,),
            runtime=self.runtime,
            signals=Signals(self),
        )


class Signals(StopSignals):
    """A signal at a moment of the world's clock."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def stop_requested(self) -> bool:
        return self._world.now >= self._world.stops_at

    def wait(self, timeout_s: float) -> None:
        self._world.now += timeout_s


def test_what_is_there_at_once_is_taken_without_a_word() -> None:
    world = World(found_at=0.0)
    assert world.wait() == 0.0
    assert world.output.getvalue() == ""


def test_what_comes_late_is_waited_for_with_one_line() -> None:
    world = World(found_at=0.5)
    assert world.wait() == pytest.approx(0.5)
    assert world.output.getvalue() == "Taken. Waiting for that, 30 s at most.\n"


def test_what_does_not_come_is_refused_when_the_time_is_over() -> None:
    world = World()
    with pytest.raises(PortInUseError, match="Taken"):
        world.wait()
    assert WAIT_S <= world.now <= WAIT_S + 1
    assert world.output.getvalue().count("\n") == 1


def test_a_request_to_stop_ends_the_wait() -> None:
    world = World(stops_at=2.0)
    with pytest.raises(PortInUseError):
        world.wait()
    assert world.now < 3.0


def test_other_refusals_are_not_waited_for() -> None:
    world = replace(World(), refusal=StateInUseError("Another server has it."))
    with pytest.raises(StateInUseError):
        world.wait()
    assert world.now == 0.0


class Supervised:
    """A store that is started again when the supervisor looks for the third time."""

    def __init__(self) -> None:
        self.n_looks = 0

    def check_start(self) -> None:
        self.n_looks += 1

    def read(self) -> str:
        if self.n_looks < 3:
            raise StoreUnavailableError("It is away.")
        return "read"


def test_what_is_announced_is_read_once_the_supervisor_has_the_store_again() -> None:
    world, store = World(), Supervised()
    found = serve.supervised(store.read, store, world.runtime, Signals(world))  # type: ignore[arg-type]
    assert (found, store.n_looks) == ("read", 3)
    assert world.output.getvalue() == "It is away. Waiting for that, 30 s at most.\n"


def test_a_start_is_not_ended_by_a_store_that_is_away_while_it_waits_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, store = World(), Supervised()
    monkeypatch.setattr(serve, "_answers", lambda _client: True)
    is_ready = serve.await_http(
        "http://127.0.0.1:1",
        world.runtime,
        Signals(world),
        require=store.check_start,
        also=lambda: bool(store.read()),
    )
    assert is_ready
    assert store.n_looks == 3

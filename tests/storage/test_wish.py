"""A wish is one command line of the trusted side, and no value of it is read as anything else."""

from __future__ import annotations

import json
import shlex

import pytest

from qserver.cli.console import Console
from qserver.cli.main import build_parser as server_parser
from qserver.cli.runtime import Runtime
from qserver.errors import InputError
from qserver.storage.encoding.wish import COMMANDS, Wish
from worker.parser import build_parser as worker_parser

TOP_UP = {"population": "town", "to": "5"}


def example(kind: str) -> dict[str, str]:
    """A value for every field."""
    sorts = {"epsilon": "1.5", "truth": "yes", "text": "7"}
    found = {f.name: next(iter(f.choices), sorts[f.kind]) for f in COMMANDS[kind].fields}
    found.pop("source", None)
    return found


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_form_is_a_command_of_its_program(kind: str) -> None:
    import sys

    wish = Wish(kind, example(kind), "boss", 7)
    runtime = Runtime(console=Console(out=sys.stdout, err=sys.stderr), environ={})
    programs = {"qserver": server_parser(runtime), "qserver-worker": worker_parser()}
    program, *arguments = shlex.split(wish.line)
    assert program == wish.command.program
    assert arguments == wish.argv
    programs[program].parse_args(arguments)
    assert all(value in wish.line for value in wish.values.values() if value != "yes")
    assert "{" not in wish.words


def test_its_text_gives_it_back_and_every_change_has_another_digest() -> None:
    wish = Wish("top-up", TOP_UP, "boss", 7)
    assert Wish.from_json(wish.to_json()) == wish
    others = [
        Wish("top-up", {**TOP_UP, "to": "50"}, "boss", 7),
        Wish("top-up", {**TOP_UP, "population": "city"}, "boss", 7),
        Wish("top-up", TOP_UP, "ann", 7),
        Wish("top-up", TOP_UP, "boss", 8),
    ]
    assert len({one.digest for one in (wish, *others)}) == 5


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"population": "town"}, "to"),
        ({"to": "5"}, "population"),
        ({**TOP_UP, "to": "much"}, "to"),
        ({**TOP_UP, "to": "-1"}, "to"),
        ({**TOP_UP, "population": "--state=/elsewhere"}, "population"),
        ({**TOP_UP, "population": "to\u202ewn"}, "population"),
        ({**TOP_UP, "population": "town\nyes"}, "population"),
        ({**TOP_UP, "population": "t" * 401}, "population"),
        ({**TOP_UP, "state": "/elsewhere"}, "state"),
    ],
)
def test_a_value_that_could_mislead_is_refused_by_name(values: dict[str, str], field: str) -> None:
    with pytest.raises(InputError) as refused:
        Wish("top-up", values, "boss", 7)
    assert refused.value.name == field


def test_what_is_no_wish_is_refused() -> None:
    plain = json.loads(Wish("top-up", TOP_UP, "boss", 7).to_json())
    texts = ["", "{}", "[]", json.dumps(plain), json.dumps({**plain, "kind": "run"})]
    for text in texts:
        with pytest.raises(InputError):
            Wish.from_json(text)
    with pytest.raises(InputError):
        Wish("create", {"name": "ann", "role": "king"}, "boss", 7)

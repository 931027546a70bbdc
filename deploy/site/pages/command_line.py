"""cli.md: every command of both programs with all its arguments, read off their parsers."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = """\
# Command line

Every command of both programs: `qserver` for those who ask and serve, `qserver-worker` for the
owner of the data. The commonest is `qserver query DATASET --where CONDITION --length L`.
`COMMAND --help` says the same in a terminal.

Made from the programs' own parsers when the site is built.
"""
# An argument that so many commands of a program take alike is described once.
_COMMON = 2


def command_line(programs: list[argparse.ArgumentParser]) -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *(line for program in programs for line in _program(program))])


@dataclass(frozen=True)
class Leaf:
    """A command without commands of its own, and what the list of commands says of it."""

    parser: argparse.ArgumentParser
    summary: str


def leaves(parser: argparse.ArgumentParser, summary: str = "") -> Iterator[Leaf]:
    """All commands below a parser."""
    below = _commands(parser)
    if below is None:
        yield Leaf(parser, summary)
        return
    summaries = {action.dest: action.help or "" for action in below._choices_actions}
    for name, command in below.choices.items():
        yield from leaves(command, summaries.get(name, ""))


def _program(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `{parser.prog}`\n"
    yield _prose(parser.description)
    if parser.epilog:
        yield "```text\n" + parser.epilog.strip() + "\n```\n"
    commands = list(leaves(parser))
    taken = Counter(_row(action) for leaf in commands for action in _shown(leaf.parser))
    common = _common(taken)
    yield "Arguments that several commands take:\n"
    yield _list(row for row in taken if row in common and ": " in row)
    for epilog in dict.fromkeys(leaf.parser.epilog for leaf in commands if leaf.parser.epilog):
        yield f"```text\n{epilog.strip()}\n```\n"
    for leaf in commands:
        yield from _command(leaf, common)


def _common(taken: Counter[str]) -> set[str]:
    """Rows that commands share; of one argument with several meanings the most frequent."""
    found = dict[str, str]()
    for row, times in taken.most_common():
        if times >= _COMMON:
            found.setdefault(row.partition(": ")[0], row)
    return set(found.values())


def _command(leaf: Leaf, common: set[str]) -> Iterator[str]:
    yield f"### `{leaf.parser.prog}`\n"
    yield _prose(leaf.parser.description or _sentence(leaf.summary))
    rows = [_row(action) for action in _shown(leaf.parser)]
    apart = [row for row in rows if row not in common]
    if apart:
        yield _list(apart)
    names = (re.findall(r"`([^` ]+)", row)[0] for row in rows if row in common)
    also = [f"`{name.rstrip(',')}`" for name in names]
    if also:
        yield f"{'Also' if apart else 'Takes'} {', '.join(also)}.\n"


def _list(rows: Iterable[str]) -> str:
    return "\n".join(rows) + "\n"


def _commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction | None:  # type: ignore[type-arg]
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return found[0] if found else None


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    hidden = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)
    return [a for a in parser._actions if not isinstance(a, hidden) and a.help != argparse.SUPPRESS]


def _row(action: argparse.Action) -> str:
    value = _value(action)
    names = ", ".join(action.option_strings) or value
    takes = f" {value}" if action.option_strings and action.nargs != 0 else ""
    need = " (required)" if action.option_strings and action.required else ""
    text = (action.help or "") % {**vars(action), "prog": ""} if action.help else ""
    about = (_cell(text) + need).strip()
    return f"- `{names}{takes}`" + (f": {about}" if about else "")


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper()


def _cell(text: str) -> str:
    """One line; the folder of whoever makes the page is nobody else's."""
    return re.sub(r"\s+", " ", text).replace(str(Path.home()), "~")


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}." if summary else ""


def _prose(text: str | None) -> str:
    return (text or "").strip() + "\n"

"""Wishes of owners in the store, until confirmed on the trusted side or a week old.

A wish is one command. The online side adds it and can do nothing else by it. Whoever controls that
side can ask for anything, so a wish is no order: it is shown in words and as a command line on the
trusted side, and is run there by the code of that command once its owner has said so.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from qserver.config import Settings
from qserver.errors import CapacityError, ConfigError, InputError, NotFoundError
from qserver.query.exact_numbers import exact_number
from qserver.query.request_fields import NEEDED, Field
from qserver.records.account import ROLES
from qserver.records.codec import plain, read
from qserver.storage.keys import WISHES
from qserver.storage.server.connection import StoreClient, connect

MOST = 50
_WEEK_S = 7 * 86_400


Program = Literal["qserver-worker", "qserver"]
_MOST_LETTERS = 400
_DIGITS = 20


@dataclass(frozen=True)
class Command:
    """A command that an owner may wish for.

    Args:
        verb: its words on the command line of `program`.
        title: of its form.
        words: what it does, with the fields' names in braces.
    """

    program: Program
    verb: tuple[str, ...]
    title: str
    words: str
    fields: tuple[Field, ...]

    @property
    def confirmed_by(self) -> str:
        """The command that confirms the wish."""
        return " ".join([self.program, *self.verb[:-1], "confirm"])


_needed = partial(Field, kind="text", default=NEEDED)
_more = partial(Field, kind="text")
_DATASET = _needed("name", "Dataset", flag="NAME")
_ACCOUNT = _needed("name", "Account", flag="NAME")
_POPULATION = _needed("population", "Population")
_SOURCE = (
    _more("data", "File, on the worker's machine"),
    _more("source", "Or address of a source"),
)
_ROLE = _needed("role", "Role", choices=dict.fromkeys(ROLES, ""))

COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "top-up": Command(
            "qserver-worker",
            ("top-up",),
            "Raise a limit",
            "Raise the limit of population {population} to {to} epsilon, for ever.",
            (replace(_POPULATION, flag="POPULATION"), _needed("to", "New limit", kind="epsilon")),
        ),
        "expect": Command(
            "qserver-worker",
            ("expect",),
            "Say how many questions are expected",
            "Plan for about {number} questions on {name} until its limit.",
            (_DATASET, _needed("number", "Questions, or 0 for no number", flag="N")),
        ),
        "append": Command(
            "qserver-worker",
            ("append",),
            "Seal the next periods",
            "Seal the periods of {name} up to {to}; what is sealed never changes.",
            (
                _DATASET,
                *_SOURCE,
                _needed("to", "Last period"),
                Field("empty", "Periods without records are meant", "truth"),
            ),
        ),
        "retire": Command(
            "qserver-worker",
            ("retire",),
            "Erase old periods",
            "Erase the records of {name} before {before}, for ever.",
            (_DATASET, _needed("before", "First period that stays")),
        ),
        "attach": Command(
            "qserver-worker",
            ("attach",),
            "Serve more data",
            "Serve private data as {name}, and let {limit} epsilon be spent on their people.",
            (
                _DATASET,
                *_SOURCE,
                _needed("domain", "Domain file, on the worker's machine"),
                _needed("limit", "Limit", kind="epsilon"),
                _more("population", "Population, if not the dataset's name"),
                _more("person", "Column of persons", flag="--person-id"),
                _more("records", "Most records of a person", flag="--records-per-person"),
                _more("capacity", "Capacity, a public number"),
                _more("to", "Last period, if data arrive over time"),
            ),
        ),
        "create": Command(
            "qserver",
            ("account", "create"),
            "Make an account",
            "Make the account {name} with the role {role}; its token is shown here.",
            (_ACCOUNT, _ROLE),
        ),
        "let-in": Command(
            "qserver",
            ("account", "let-in"),
            "Let a group in",
            "Let in {name}, of the identity provider, with the role {role}.",
            (_needed("name", "Group with a slash, or GROUP/NAME", flag="NAME"), _ROLE),
        ),
        "revoke": Command(
            "qserver",
            ("account", "revoke"),
            "Shut an account out",
            "End the token of {name}; its name and its spending stay.",
            (_ACCOUNT,),
        ),
        "allow": Command(
            "qserver",
            ("account", "allow"),
            "Bound what an account spends",
            "Set what {name} may spend of population {population}; an empty field sets no bound.",
            (
                _ACCOUNT,
                _POPULATION,
                Field("limit", "In all", "epsilon"),
                Field("per_day", "In any 24 hours", "epsilon"),
            ),
        ),
    }
)


@dataclass(frozen=True)
class Wish:
    """A command that an owner wishes for.

    Args:
        kind: of `COMMANDS`.
        values: of its fields by name, none empty; of a flag `yes`.
        by: the account that asked, as the online side says; '' where it knows none.
        at: Unix time in whole seconds, as the online side says.

    Raises:
        InputError: a value is missing, unknown, or could be read as something else.
    """

    kind: str
    values: Mapping[str, str]
    by: str
    at: int

    def __post_init__(self) -> None:
        if self.kind not in COMMANDS:
            raise InputError("command", f"be one of {', '.join(COMMANDS)}")
        fields = {field.name: field for field in self.command.fields}
        for name, value in (*self.values.items(), ("by", self.by)):
            _check_text(name, value)
            if name != "by" and name not in fields:
                raise InputError(name, "be left out: the command has no such field")
        for field in fields.values():
            _check_value(field, self.values.get(field.name, ""))
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    @property
    def command(self) -> Command:
        """The command behind the wish."""
        return COMMANDS[self.kind]

    @property
    def argv(self) -> list[str]:
        """The program's arguments; a value is never read as an option."""
        found = list(self.command.verb)
        for field in self.command.fields:
            value = self.values.get(field.name)
            if value is None:
                continue
            if field.kind == "truth":
                found.append(field.flag)
            else:
                found.append(f"{field.flag}={value}" if field.flag[0] == "-" else value)
        return found

    @property
    def line(self) -> str:
        """The command line."""
        return shlex.join([self.command.program, *self.argv])

    @property
    def words(self) -> str:
        """The effect in words."""
        return self.command.words.format_map(self.values)

    def to_json(self) -> str:
        """One text for each wish."""
        return json.dumps(plain(self), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """The beginning of the SHA-256 of the wish's text, which confirms it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:_DIGITS]

    @classmethod
    def from_json(cls, text: str) -> Wish:
        """The wish that `to_json` wrote; InputError for anything else."""
        try:
            found = read(cls, json.loads(text))
            if type(found.at) is int and found.to_json() == text:
                return found
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        raise InputError("wish", "be one that an owner's page filed")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > _MOST_LETTERS or value.startswith("-"):
        raise InputError(name, f"be a text of at most {_MOST_LETTERS} letters, not from `-` on")
    # A terminal must show the meant text.
    if any(unicodedata.category(letter).startswith("C") for letter in value):
        raise InputError(name, "have no letters that cannot be seen")


def _check_value(field: Field, value: str) -> None:
    if not value:
        if field.default is NEEDED:
            raise InputError(field.name, f"be given: {field.about}")
        return
    if field.kind == "epsilon" and exact_number(value, field.name, InputError) < 0:
        raise InputError(field.name, "be >= 0")
    if field.kind == "truth" and value != "yes":
        raise InputError(field.name, "be `yes`, or left out")
    if field.choices and value not in field.choices:
        raise InputError(field.name, f"be one of {', '.join(field.choices)}")


class Wishes:
    """The wishes of a store. Thread-safe as its client is; `wall_clock`: Unix time in seconds."""

    commands = COMMANDS
    """What can be asked for, by kind."""

    def __init__(self, client: StoreClient, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._wall_clock = wall_clock

    @classmethod
    def open(cls, settings: Settings, *, role: str) -> Wishes:
        """The wishes in the store of the settings; StoreError."""
        return cls(connect(settings.store_url, role=role))

    def add(self, kind: str, values: Mapping[str, str], *, by: str) -> Wish:
        """Keep a wish.

        Raises:
            InputError: it is none.
            CapacityError: too many wait.
        """
        wish = Wish(kind, values, by, int(self._wall_clock()))
        if self._client.hlen(WISHES) >= MOST:
            raise CapacityError(f"{MOST} requests wait already. Confirm or drop some first.")
        self._client.hset(WISHES, wish.digest, wish.to_json())
        return wish

    def all(self, program: str = "") -> list[Wish]:
        """The waiting wishes, of one program if named, newest first; unreadable texts are left
        out."""
        found: dict[Any, Any] = self._client.hgetall(WISHES)
        wishes = [wish for digest, text in found.items() if (wish := self._read(digest, text))]
        ours = [wish for wish in wishes if program in ("", wish.command.program)]
        return sorted(ours, key=lambda wish: -wish.at)

    def one(self, digest: str, program: str) -> Wish:
        """The wish with this exact digest; NotFoundError, or ConfigError if another program
        confirms it."""
        text: Any = self._client.hget(WISHES, digest)
        wish = None if text is None else self._read(digest, str(text))
        if wish is None:
            raise NotFoundError("request", digest[:80])
        if wish.command.program != program:
            raise ConfigError("id", f"be confirmed by `{wish.command.confirmed_by}`", digest)
        return wish

    def drop(self, digest: str) -> None:
        """Forget a wish, and all that are too old or unreadable."""
        found: dict[Any, Any] = self._client.hgetall(WISHES)
        gone = [key for key, text in found.items() if not self._read(key, text)]
        self._client.hdel(WISHES, digest, *gone)

    def _read(self, digest: str, text: str) -> Wish | None:
        try:
            wish = Wish.from_json(text)
        except InputError:
            return None
        is_due = abs(self._wall_clock() - wish.at) <= _WEEK_S
        # A writer to the store cannot put another wish under a digest that was read.
        return wish if wish.digest == digest and is_due else None

"""The records of a journal that an owner's commands write, beside those of attached datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qserver.query.measure import MEASURES
from worker.journal.fields import (
    check_integer,
    check_members,
    check_text,
    check_text_or_none,
    reject,
)


@dataclass(frozen=True)
class LimitRaised:
    """A top-up: the population's limit before and after, in 1e-9 epsilon."""

    old_limit_nano: int
    new_limit_nano: int

    def __post_init__(self) -> None:
        check_integer("old_limit_nano", self.old_limit_nano, least=1)
        check_integer("new_limit_nano", self.new_limit_nano, least=self.old_limit_nano + 1)


@dataclass(frozen=True)
class Adopted:
    """The journal before this one is lost, and the owner trusts the store's spending.

    Args:
        ledger_version: the store's ledger version then.
        spent_nano: the spending in the store then, in 1e-9 epsilon.
    """

    ledger_version: int
    spent_nano: int

    def __post_init__(self) -> None:
        check_integer("ledger_version", self.ledger_version, least=0)
        check_integer("spent_nano", self.spent_nano, least=0)


@dataclass(frozen=True)
class DeclaredDisjoint:
    """The owner's word, after they were attached, that snapshots have no person in common.

    Args:
        pairs: of snapshots, each in rising order.
    """

    pairs: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        check_members("pairs", self.pairs, tuple)
        for found in self.pairs:
            if len(found) != 2 or not found[0] < found[1]:
                reject("pairs", "hold two snapshots each, in rising order")


@dataclass(frozen=True)
class ClaimsSet:
    """What the owner does not want to be known too well of a snapshot from now on, as JSON."""

    snapshot: str
    claims: str

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_text("claims", self.claims)


@dataclass(frozen=True)
class MeasureSet:
    """The owner's choice of what is measured for questions on a snapshot that do not say."""

    snapshot: str
    measure: str

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        if self.measure not in MEASURES:
            reject("measure", "be `auto` or `only_this`")


@dataclass(frozen=True)
class Sealed:
    """Periods of a snapshot have their data, which never change from here on.

    Args:
        start, stop: the first of these periods, and the one after the last, as indexes.
        file: name of the part file in the worker's folder.
        fingerprint_hex: keyed hash of the part and of all parts before it.
        details: keyed digests of what the owner's file held; they stay on the worker's machine.
    """

    snapshot: str
    start: int
    stop: int
    file: str
    fingerprint_hex: str
    details: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_integer("start", self.start, least=0)
        check_integer("stop", self.stop, least=self.start + 1)
        check_text("file", self.file)
        check_text("fingerprint_hex", self.fingerprint_hex)
        if not isinstance(self.details, Mapping):
            reject("details", "be a mapping")
        for name, value in self.details.items():
            check_text("details", name)
            check_text_or_none("details", value)
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))


@dataclass(frozen=True)
class Retired:
    """The records of the first periods of a snapshot are erased from here on.

    Args:
        before: index of the first period whose records stay.
        stop: where the last part ends that held a record before it.
        file: name of the file that stands for all parts up to `stop`: the records that stay, and
            how many records each person had in these parts, where k in all needs it.
        fingerprint_hex: keyed hash of that file and of all parts before `stop`.
    """

    snapshot: str
    before: int
    stop: int
    file: str
    fingerprint_hex: str

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_integer("before", self.before, least=1)
        check_integer("stop", self.stop, least=self.before)
        check_text("file", self.file)
        check_text("fingerprint_hex", self.fingerprint_hex)


LaterWord = LimitRaised | DeclaredDisjoint | MeasureSet | ClaimsSet
"""What an owner says after the data were attached."""

"""The records of a journal, and their lines.

A line is the canonical JSON (sorted keys, no spaces, ASCII, integers only) of a body and a digest.
The digest is SHA-256 over the digest of the line before and the body. So nobody can alter, move,
repeat or remove a line from the middle unseen. Records hold charges, limits and released answers:
no truth, no noise, no row of the data.

Commands of an owner write some of them, and spends the others. A field that is wrong is a
JournalError.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NoReturn

from qserver.errors import JournalError
from qserver.ledger.population import pair
from qserver.query.requirement import MEASURES
from qserver.records.codec import plain, read
from qserver.records.dataset import MOST_EXPECTED

_DIGEST = re.compile(r"(?:[0-9a-f]{64})?")


def check_text(name: str, value: object) -> None:
    """Check for a non-empty text."""
    if type(value) is not str or not value:
        reject(name, "be a text of one character or more")


def check_text_or_none(name: str, value: object) -> None:
    """Check for a text; '' stands for none."""
    if type(value) is not str:
        reject(name, "be a text")


def check_digest(name: str, value: object) -> None:
    """Check for a SHA-256; '' stands for none."""
    if type(value) is not str or not _DIGEST.fullmatch(value):
        reject(name, "be 64 lower-case hexadecimal digits, or empty")


def check_integer(name: str, value: object, *, least: int) -> None:
    """Check for a whole number of at least `least`."""
    # Exact type: a bool is an int to isinstance, and a float would be written with a point.
    if type(value) is not int or value < least:
        reject(name, f"be an int >= {least}")


def check_members(name: str, value: object, kind: type) -> None:
    """Check for a non-empty tuple of members of one type."""
    if type(value) is not tuple or not value or any(type(member) is not kind for member in value):
        reject(name, f"be a tuple of one {kind.__name__} or more")


def reject(name: str, condition: str) -> NoReturn:
    """Raise JournalError: the field breaks the condition."""
    raise JournalError(f"`{name}` of a journal record must {condition}.")


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
    """The previous journal is lost, and the owner trusts the store's spending.

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
class Restored:
    """The journal is a backup's, and no witness shows that it is complete.

    Args:
        word: `nothing since` where the owner says that nothing was charged since the backup;
            `unknown` where nobody does: then nothing is drawn for this population any more.
    """

    word: str

    def __post_init__(self) -> None:
        if self.word not in ("nothing since", "unknown"):
            reject("word", "be `nothing since` or `unknown`")


@dataclass(frozen=True)
class DeclaredDisjoint:
    """The owner's later word that snapshots have no person in common.

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
    """The claims of a snapshot from now on, as JSON."""

    snapshot: str
    claims: str

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_text("claims", self.claims)


@dataclass(frozen=True)
class MeasureSet:
    """The owner's default for `measure` on a snapshot."""

    snapshot: str
    measure: str

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        if self.measure not in MEASURES:
            reject("measure", "be `auto` or `only_this`")


@dataclass(frozen=True)
class ExpectedSet:
    """The owner's number of expected questions on a snapshot; 0 takes it back."""

    snapshot: str
    expected: int

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_integer("expected", self.expected, least=0)
        if self.expected > MOST_EXPECTED:
            reject("expected", f"be at most {MOST_EXPECTED}")


@dataclass(frozen=True)
class Sealed:
    """Periods of a snapshot have their data, which never change from now on.

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
    """The records of the first periods of a snapshot are erased from now on.

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


LaterWord = LimitRaised | DeclaredDisjoint | MeasureSet | ClaimsSet | ExpectedSet
"""What an owner says after the data were attached."""


SCHEMA_VERSION = 1
GENESIS = bytes(32)
"""The digest before the first line."""
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(frozen=True)
class Opened:
    """The first line: the population. Its form is the same in every schema version."""

    population: str
    schema_version: int

    def __post_init__(self) -> None:
        check_text("population", self.population)
        check_integer("schema_version", self.schema_version, least=1)


@dataclass(frozen=True)
class Attached:
    """A snapshot of a dataset was attached under the population's limit.

    Args:
        limit_nano: the population's limit, in 1e-9 epsilon.
        neighbours: `add-remove` or `replace-one`.
        fingerprint_hex: keyed hash of the content; it stays on the worker's machine.
        details: further facts by name, each a text or a whole number.
    """

    dataset: str
    snapshot: str
    limit_nano: int
    neighbours: str
    fingerprint_hex: str
    details: Mapping[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("dataset", self.dataset)
        check_text("snapshot", self.snapshot)
        check_integer("limit_nano", self.limit_nano, least=1)
        if self.neighbours not in ("add-remove", "replace-one"):
            reject("neighbours", "be `add-remove` or `replace-one`")
        check_text("fingerprint_hex", self.fingerprint_hex)
        if not _HEX.fullmatch(self.fingerprint_hex):
            reject("fingerprint_hex", "be whole bytes in lower-case hexadecimal")
        if not isinstance(self.details, Mapping):
            reject("details", "be a mapping")
        for name, value in self.details.items():
            check_text("details", name)
            if type(value) not in (str, int):
                reject("details", "hold text and integers only")
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    @property
    def disjoint_pairs(self) -> set[tuple[str, str]]:
        """Pairs of this snapshot with those that the owner declared to hold other people."""
        others = str(self.details.get("disjoint_from", "")).split()
        return {pair(self.snapshot, other) for other in others}

    @property
    def delta(self) -> Fraction | None:
        """At which the population's rho is shown as epsilon; None under pure privacy."""
        found = self.details.get("delta")
        return None if found is None else Fraction(found)


@dataclass(frozen=True)
class ChargeLine:
    """One charge: the key of the row (or of the scope, when opaque) and its 1e-9 epsilon."""

    scope: str
    nano: int

    def __post_init__(self) -> None:
        check_text("scope", self.scope)
        check_integer("nano", self.nano, least=1)


@dataclass(frozen=True)
class Reserved:
    """The store has charged a job; nothing is drawn yet.

    Args:
        ledger_version: the store's ledger version after this charge.
        spent_nano_after: the population's spending after it, in 1e-9 epsilon.
        charges: every charge of the job.
        charges_digest: digest of the store's charges so far; '' in older lines.
        replay: all that the store was given, as JSON of `worker.journal.sections.Replay`, for a
            store that is restored from a backup; '' in older lines.
        books: whether `worker.books` showed that nobody loses more than the share says, `verified`
            or `not verified`; '' in older lines.
    """

    job: str
    ledger_version: int
    spent_nano_after: int
    charges: tuple[ChargeLine, ...]
    charges_digest: str = ""
    replay: str = ""
    books: str = ""

    def __post_init__(self) -> None:
        check_text("job", self.job)
        check_integer("ledger_version", self.ledger_version, least=1)
        check_integer("spent_nano_after", self.spent_nano_after, least=0)
        check_members("charges", self.charges, ChargeLine)
        check_digest("charges_digest", self.charges_digest)
        check_text_or_none("replay", self.replay)
        if self.books not in ("", "verified", "not verified"):
            reject("books", "be `verified`, `not verified` or empty")


@dataclass(frozen=True)
class ReleasedRow:
    """Released answers of one row (one index) or of one table (an index for each disjoint row).

    Args:
        row: the row's or the table's key.
        indices: answers in lattice steps.
        alpha_nano: of a table whose alpha a sample decided; 0 where the plan has it.
        table: a table that released answers decided, as JSON; '' where the plan has it.
    """

    row: str
    indices: tuple[int, ...]
    alpha_nano: int = 0
    table: str = ""

    def __post_init__(self) -> None:
        check_text("row", self.row)
        check_members("indices", self.indices, int)
        check_integer("alpha_nano", self.alpha_nano, least=0)
        check_text_or_none("table", self.table)


@dataclass(frozen=True)
class Decided:
    """The answers of a job's first tables, and the tables that they decide, the only ones drawn.

    A job that ends here has its first tables alone.

    Args:
        rows: answers of the plan's tables.
        tables: the second purchase, as JSON.
    """

    job: str
    rows: tuple[ReleasedRow, ...]
    tables: tuple[str, ...]

    def __post_init__(self) -> None:
        check_text("job", self.job)
        check_members("rows", self.rows, ReleasedRow)
        check_members("tables", self.tables, str)


@dataclass(frozen=True)
class Released:
    """All answers of a job, drawn once. A resumed job publishes these and draws none.

    Args:
        chained: the snapshot whose history they join; '' in older lines.
        head: digest of that history's last event then; '' in older lines.
    """

    job: str
    rows: tuple[ReleasedRow, ...]
    chained: str = ""
    head: str = ""

    def __post_init__(self) -> None:
        check_text("job", self.job)
        check_members("rows", self.rows, ReleasedRow)
        check_text_or_none("chained", self.chained)
        check_digest("head", self.head)


@dataclass(frozen=True)
class HistoryChained:
    """An earlier version's history was compared with the journal, and has a chain from now on.

    Args:
        snapshot: whose history.
        head: digest of its last event; '' for none.
        n_events: its events.
    """

    snapshot: str
    head: str
    n_events: int

    def __post_init__(self) -> None:
        check_text("snapshot", self.snapshot)
        check_digest("head", self.head)
        check_integer("n_events", self.n_events, least=0)


@dataclass(frozen=True)
class Burnt:
    """A job that keeps its charge and whose answer is never drawn."""

    job: str

    def __post_init__(self) -> None:
        check_text("job", self.job)


@dataclass(frozen=True)
class Group:
    """Records of one kind in one line: a crash leaves all of them or none.

    Args:
        records: two or more charges, answers or burnt jobs, each of another job, in their order.
    """

    records: tuple[Reserved | Released | Burnt, ...]

    def __post_init__(self) -> None:
        kinds = set(map(type, self.records))
        if len(kinds) != 1 or not kinds <= {Reserved, Released, Burnt}:
            reject("records", "be charges, answers or burnt jobs, and of one kind")
        if len({record.job for record in self.records}) < max(2, len(self.records)):
            reject("records", "be of two or more different jobs")


Record = (
    Opened
    | Attached
    | Reserved
    | Decided
    | Released
    | Burnt
    | LimitRaised
    | Adopted
    | DeclaredDisjoint
    | MeasureSet
    | ClaimsSet
    | ExpectedSet
    | Sealed
    | Retired
    | HistoryChained
    | Restored
    | Group
)
_KINDS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "opened": Opened,
        "attached": Attached,
        "reserved": Reserved,
        "decided": Decided,
        "released": Released,
        "burnt": Burnt,
        "limit-raised": LimitRaised,
        "adopted": Adopted,
        "declared-disjoint": DeclaredDisjoint,
        "measure-set": MeasureSet,
        "claims-set": ClaimsSet,
        "expected-set": ExpectedSet,
        "sealed": Sealed,
        "retired": Retired,
        "history-chained": HistoryChained,
        "restored": Restored,
        "group": Group,
    }
)
_NAMES = MappingProxyType({kind: name for name, kind in _KINDS.items()})


@dataclass(frozen=True)
class JournalLine:
    """One line with its newline, and its digest, which the next line builds on."""

    record: Record
    digest: bytes
    text: bytes

    @property
    def records(self) -> tuple[Record, ...]:
        """The line's record, or the records of its group."""
        return self.record.records if isinstance(self.record, Group) else (self.record,)


def write_line(record: Record, *, sequence: int, previous: bytes) -> JournalLine:
    """The line of `record` at place `sequence`, after the line with the digest `previous`."""
    body = {**_named(record), "sequence": sequence}
    digest = hashlib.sha256(previous + canonical(body)).digest()
    text = canonical({"body": body, "digest": digest.hex()}) + b"\n"
    return JournalLine(record=record, digest=digest, text=text)


def read_line(text: bytes, *, sequence: int, previous: bytes) -> JournalLine:
    """Read a line that must equal `write_line`'s at this place, byte for byte.

    Args:
        text: one line with its newline.
        sequence: its place, from 0.
        previous: digest of the line before.

    Raises:
        JournalError: the line is damaged, out of place, or of a newer version.
    """
    try:
        body = json.loads(text)["body"]
        record = _record(body["kind"], body["fields"])
        line = write_line(record, sequence=sequence, previous=previous)
    except (ValueError, TypeError, KeyError, RecursionError, JournalError) as exc:
        raise _damaged(sequence) from exc
    # One comparison covers digest, chain, place, field names and stray bytes.
    if line.text != text:
        raise _damaged(sequence)
    if isinstance(record, Opened) and record.schema_version > SCHEMA_VERSION:
        raise JournalError(
            f"`schema_version` of the journal must be at most {SCHEMA_VERSION}, "
            f"got {record.schema_version}. A newer qserver wrote it: run that one."
        )
    return line


def _record(kind: str, fields: dict[str, object]) -> Record:
    if kind != "group":
        return read(_KINDS[kind], fields)
    members: Any = fields["records"]
    return Group(tuple(_record(one["kind"], one["fields"]) for one in members))  # type: ignore[misc]


def _named(record: Record) -> dict[str, object]:
    if isinstance(record, Group):
        fields = {"records": [_named(one) for one in record.records]}
    else:
        fields = plain(record)
    return {"fields": fields, "kind": _NAMES[type(record)]}


def canonical(document: object) -> bytes:
    """The JSON of lines and their digests: sorted keys, no spaces, ASCII."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def _damaged(sequence: int) -> JournalError:
    return JournalError(
        f"The journal's record {sequence} is damaged or out of place. "
        "Nothing is measured until the owner has restored or replaced the journal."
    )

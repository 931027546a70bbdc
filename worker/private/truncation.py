"""Keep at most k records of each person.

The choice is keyed: a keyed digest of person and record ranks the records of a person. So the
choice depends neither on the order of the file nor on other people's records, and nobody can
foresee it without the worker's key. Equal records of one person are numbered; it makes no
difference which of them is dropped.

*Period by period* at most m records of each person in a period are kept and k in all, by what came
before alone. Of a period's records of a person the first m by their keyed digests are kept, while
fewer than k were kept in earlier periods. So what is kept of a period never depends on later
records, and two streams that differ by one person differ in that person's kept records alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import ConfigError
from qserver.records.codec import ALWAYS
from worker.constants import WORKER

if TYPE_CHECKING:
    from worker.private.people import People


_PURPOSE = b"qserver keep"


def beyond(
    members: NDArray[np.intp],
    groups: NDArray[Any],
    codes: Sequence[NDArray[Any]],
    *,
    places: Callable[[int], int],
    person: Callable[[int], str],
    key: bytes,
) -> Iterator[int]:
    """The records without a place in their group, by their keyed digests.

    A bounded number of records is looked at in full at a time.

    Args:
        members: places of records in `codes`.
        groups: the group of each of them: a person, or a person in a period.
        codes: per attribute, the code of each record.
        places: how many records of a group stay.
        person: the person of a group.
    """
    order = np.argsort(groups, kind="stable")
    members, groups = members[order], groups[order]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ends = np.append(starts, len(groups))[1:]
    block = stop = 0
    rows, width = b"", 8 * len(codes)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end > stop:
            block, stop = start, max(end, start + WORKER.batch_records)
            found = np.stack([np.asarray(c)[members[block:stop]] for c in codes], axis=1)
            rows = found.astype(">i8").tobytes()
        texts = [rows[i * width : (i + 1) * width] for i in range(start - block, end - block)]
        group = int(groups[start])
        for at in ranked(person(group), texts, key)[places(group) :]:
            yield int(members[start + at])


def ranked(person: str, texts: Sequence[bytes], key: bytes) -> list[int]:
    """Places of a person's records by their keyed digests.

    It depends neither on the order of the records nor on other people's. Equal records are
    numbered; it makes no difference which of them comes first.
    """
    prefix = person.encode("utf-8", "surrogatepass")
    begun = len(prefix).to_bytes(8, "big") + prefix
    of_person = hashlib.blake2b(begun, key=key, digest_size=32, person=_PURPOSE)
    seen: dict[bytes, int] = {}
    digests = []
    for at, text in enumerate(texts):
        number = seen.get(text, 0)
        seen[text] = number + 1
        digest = of_person.copy()  # half the time of a new digest
        digest.update(text + number.to_bytes(8, "big"))
        digests.append((digest.digest(), at))
    return [at for _, at in sorted(digests)]


NOBODY: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class PeriodRule:
    """A rule for the records of one person: the most to keep in a period and in all.

    Args:
        axis: the period attribute.
        most: m, in one period.
        in_all: k, in all periods together; None for no bound.
    """

    axis: int
    most: int
    in_all: int | None = field(default=None, metadata=ALWAYS)

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ConfigError("records_per_period", "be 1 or more", self.most)
        if self.in_all is not None and self.in_all < 1:
            raise ConfigError("records_per_person", "be 1 or more", self.in_all)


@dataclass(frozen=True, repr=False)
class Kept:
    """The kept records. All of this is private.

    Args:
        mask: of the records.
        n_over_period, n_over_all: how many were left out because of m, and because of k.
        n_nobody: how many were left out because they name no person.
    """

    mask: NDArray[np.bool_]
    n_over_period: int
    n_over_all: int
    n_nobody: int

    @classmethod
    def together(cls, parts: Sequence[Kept], mask: NDArray[np.bool_]) -> Kept:
        """The findings on different persons together; `mask` of all their records."""
        return cls(
            mask,
            n_over_period=sum(part.n_over_period for part in parts),
            n_over_all=sum(part.n_over_all for part in parts),
            n_nobody=sum(part.n_nobody for part in parts),
        )

    def lines(self, rule: PeriodRule) -> list[str]:
        """The left-out records, in words for the owner alone."""
        kept = f"kept {int(self.mask.sum()):,} of {len(self.mask):,} records"
        return [f"private, for you alone: {'; '.join([kept, *self.reasons(rule)])}"]

    def reasons(self, rule: PeriodRule) -> list[str]:
        """The number of left-out records for each reason, in words; empty if none."""
        found = [
            (self.n_over_period, f"were more than {rule.most} of a person in a period"),
            (self.n_over_all, f"were more than {rule.in_all} of a person in all"),
            (self.n_nobody, "name no person"),
        ]
        return [f"{n:,} {what}" for n, what in found if n]


def kept_by_period(
    people: People,
    codes: Sequence[NDArray[Any]],
    *,
    rule: PeriodRule,
    key: bytes,
    earlier: Mapping[str, int] = NOBODY,
) -> Kept:
    """The records to keep of one or more periods, after the earlier kept ones.

    Args:
        people: the person of each record; '' is unknown, and such a record is never kept.
        codes: per attribute, the code of each record.
        key: the worker's secret.
        earlier: person -> records kept in earlier parts; a person left out has none.
    """
    named = np.flatnonzero(people.is_named())
    who, periods = people.who[named].astype(np.int64), np.asarray(codes[rule.axis])[named]
    # Groups of one person's records of one period, by person and then by period.
    n_periods = int(periods.max(initial=0)) + 1
    keys, of_group, n_records = np.unique(
        who * n_periods + periods, return_inverse=True, return_counts=True
    )
    owners = keys // n_periods
    before = np.zeros(len(people.texts), dtype=np.int64)
    if earlier:
        before[:] = [earlier.get(str(name), 0) for name in people.texts.to_pylist()]
    within = np.minimum(n_records, rule.most)
    places = _places(owners, within, before, rule.in_all)
    mask = np.zeros(len(people.who), dtype=np.bool_)
    groups = _Groups(of_group.reshape(-1), owners, n_records)
    mask[named] = _first(groups, places, people, codes, named, key)
    return Kept(
        mask,
        n_over_period=int((n_records - within).sum()),
        n_over_all=int((within - places).sum()),
        n_nobody=len(mask) - len(named),
    )


def _places(
    who: NDArray[np.int64],
    within: NDArray[np.int64],
    before: NDArray[np.int64],
    in_all: int | None,
) -> NDArray[np.int64]:
    """The number of kept records of each group: k's room in `within` after earlier ones."""
    if in_all is None or not len(who):
        return within
    sums = np.cumsum(within)
    is_first = np.concatenate(([True], who[1:] != who[:-1]))
    start = np.where(is_first, sums - within, 0)
    upto = sums - np.maximum.accumulate(start)
    room = np.maximum(0, in_all - before)[who]
    return np.asarray(np.minimum(upto, room) - np.minimum(upto - within, room))


@dataclass(frozen=True, repr=False)
class _Groups:
    """One person's records of one period together.

    Args:
        of: for each record, its group.
        owners: for each group, its person.
        n_records: for each group.
    """

    of: NDArray[np.intp]
    owners: NDArray[np.int64]
    n_records: NDArray[np.int64]


def _first(
    groups: _Groups,
    places: NDArray[np.int64],
    people: People,
    codes: Sequence[NDArray[Any]],
    named: NDArray[np.intp],
    key: bytes,
) -> NDArray[np.bool_]:
    """Mask of the named records: of each group the first ones by their keyed digests."""
    kept = (places > 0)[groups.of]
    crowded = np.flatnonzero(kept & (groups.n_records > places)[groups.of])
    dropped = beyond(
        crowded,
        groups.of[crowded],
        [np.asarray(c)[named] for c in codes],
        places=lambda group: int(places[group]),
        person=lambda group: people.text(int(groups.owners[group])),
        key=key,
    )
    kept[np.fromiter(dropped, dtype=np.intp)] = False
    return kept


@dataclass(frozen=True)
class PersonRule:
    """A rule: at most `most` records of one person are kept.

    Args:
        column: the column of the private file that names the person. It is no attribute.
        most: k, >= 1.
        by_period: what is kept by period in its place, where data come period by period.
    """

    column: str
    most: int
    by_period: PeriodRule | None = None

    def __post_init__(self) -> None:
        if not self.column:
            raise ConfigError("person_id", "name a column of the file")
        if self.most < 1:
            raise ConfigError("records_per_person", "be 1 or more", self.most)


def kept_records(
    people: People, codes: Sequence[NDArray[Any]], *, most: int, key: bytes
) -> NDArray[np.bool_]:
    """Mask of the records to keep.

    Args:
        people: the person of each record. '' is unknown, and such a record is never kept: all of
            them might be of one person.
        codes: per attribute, the code of each record.
        most: most records kept of one person.
        key: the worker's secret.
    """
    who, kept = people.who, people.is_named()
    crowded = np.flatnonzero((people.n_records() > most)[who] & kept)
    dropped = beyond(
        crowded, who[crowded], codes, places=lambda _: most, person=people.text, key=key
    )
    kept[np.fromiter(dropped, dtype=np.intp)] = False
    return kept

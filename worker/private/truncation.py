"""Keep at most k records of each person.

The choice is keyed: a keyed digest of person and record ranks the records of a person. So the
choice depends neither on the order of the file nor on other people's records, and nobody can
foresee it without the worker's key. Equal records of one person are numbered; it makes no
difference which of them is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import ConfigError
from worker.private.causal import PeriodRule
from worker.private.ranking import beyond

if TYPE_CHECKING:
    from worker.private.people import People


@dataclass(frozen=True)
class PersonRule:
    """At most `most` records of one person are kept.

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

"""The keyed order of one person's records: it decides which of too many are kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.constants import WORKER

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
    """The records that find no place in their group, by their keyed digests.

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
    block = 0
    rows = np.zeros((0, len(codes)), dtype=">i8")
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if end > block + len(rows):
            block, stop = start, max(end, start + WORKER.batch_records)
            rows = np.stack([np.asarray(c)[members[block:stop]] for c in codes], axis=1)
            rows = rows.astype(">i8")
        texts = [row.tobytes() for row in rows[start - block : end - block]]
        group = int(groups[start])
        for at in ranked(person(group), texts, key)[places(group) :]:
            yield int(members[start + at])


def ranked(person: str, texts: Sequence[bytes], key: bytes) -> list[int]:
    """Places of a person's records by their keyed digests.

    It depends neither on the order of the records nor on other people's. Equal records are
    numbered; it makes no difference which of them comes first.
    """
    prefix = person.encode("utf-8", "surrogatepass")
    seen: Counter[bytes] = Counter()
    digests = []
    for at, text in enumerate(texts):
        number = seen[text]
        seen[text] += 1
        digest = hashlib.blake2b(key=key, digest_size=32, person=_PURPOSE)
        digest.update(len(prefix).to_bytes(8, "big") + prefix + text + number.to_bytes(8, "big"))
        digests.append((digest.digest(), at))
    return [at for _, at in sorted(digests)]

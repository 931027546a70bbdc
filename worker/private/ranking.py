"""The keyed order of one person's records: it decides which of too many are kept."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

_PURPOSE = b"qserver keep"


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

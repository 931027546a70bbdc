"""One checkpoint as bytes: a head of JSON, arrays as they are in memory, a seal of all before.

    magic, length of the head, head, arrays at multiples of 64 bytes, seal

The seal is a digest (HMAC-SHA256 where there is a key, so that only its owner can write one).
Nothing in a file is executed, and whatever is not exactly so is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import mmap
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.records.state import State

MAGIC = b"qserver checkpoint 1\n"
_ALIGNED = 64
_SEAL_BYTES = 32
_TYPES = frozenset(["<f8", "<i8", "<i4", "|u1", "|b1", "|S32"])


class CheckpointError(Exception):
    """A file is no checkpoint, or it was changed. It is never shown to a user."""


def parts_of(state: State) -> Iterator[bytes | memoryview]:
    """The file's bytes but for the seal."""
    arrays = {name: np.require(a, requirements=["C"]) for name, a in state.arrays.items()}
    index: dict[str, list[object]] = {}
    place = 0
    for name, array in arrays.items():
        place += -place % _ALIGNED
        index[name] = [array.dtype.str, list(array.shape), place]
        place += array.nbytes
    head = json.dumps({"head": state.head, "arrays": index}).encode()
    start = MAGIC + len(head).to_bytes(8, "little") + head
    yield start + bytes(-len(start) % _ALIGNED)
    written = 0
    for array in arrays.values():
        yield bytes(-written % _ALIGNED)
        written += -written % _ALIGNED + array.nbytes
        yield array.ravel().view(np.uint8).data


class Seal:
    """The seal of a file, with a key or without."""

    def __init__(self, key: bytes = b"") -> None:
        self._digest: Any = hmac.new(key, digestmod="sha256") if key else hashlib.sha256()

    def update(self, part: bytes | memoryview) -> None:
        """Take in the next bytes."""
        self._digest.update(part)

    @property
    def value(self) -> bytes:
        """The seal of all bytes so far."""
        found: bytes = self._digest.digest()
        return found


def state_of(mapped: mmap.mmap | bytes, *, key: bytes = b"") -> State:
    """The state in a file's bytes. Arrays are views of them, for reading only.

    Raises:
        CheckpointError: it was not written so, or not with this key.
    """
    view = memoryview(mapped)
    body, seal = view[:-_SEAL_BYTES], Seal(key)
    seal.update(body)
    if not hmac.compare_digest(seal.value, bytes(view[-_SEAL_BYTES:])):
        raise CheckpointError("the seal is not that of the content")
    try:
        return _read(body)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise CheckpointError("the content is of another form") from exc


def _read(body: memoryview) -> State:
    if bytes(body[: len(MAGIC)]) != MAGIC:
        raise CheckpointError("the format is another")
    begin = len(MAGIC) + 8
    length = int.from_bytes(body[len(MAGIC) : begin], "little")
    plain = json.loads(bytes(body[begin : begin + length]))
    start = begin + length
    start += -start % _ALIGNED
    found = {name: _array(body, start, entry) for name, entry in plain["arrays"].items()}
    return State(plain["head"], found)


def _array(body: memoryview, start: int, entry: list[Any]) -> NDArray[Any]:
    kind, shape, place = entry
    if kind not in _TYPES or any(not isinstance(n, int) or n < 0 for n in (*shape, place)):
        raise CheckpointError("an array is of another form")
    array = np.frombuffer(body, kind, count=prod(shape), offset=start + place).reshape(shape)
    array.flags.writeable = False
    return array

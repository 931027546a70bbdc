"""A fault that is none: another worker holds the lease and went on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from qserver.errors import FencedError, QServerError
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore


@contextlib.contextmanager
def while_held(writer: SpendingStore, lease: Lease, *faults: type[QServerError]) -> Iterator[None]:
    """Raise FencedError in place of these faults if the lease is another worker's by now.

    The new holder may have charged and released more than this worker has read.
    """
    try:
        yield
    except faults as exc:
        if not writer.renew(lease):
            raise FencedError("The lease passed to another worker.") from exc
        raise

"""How a program loads much code: without the collector of cycles, which would find nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Around the imports of a program.

    Modules, classes and functions stay for ever. To look through them again and again while they
    load took up to a fifth of a start. Afterwards they are left out of every search, and so stay
    shared by the processes that are forked.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

"""How a program starts: BLAS threads are limited, then code is loaded. Imports nothing of ours.

The limits must come before numpy. Code is loaded without the collector of cycles, which would find
nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def limit_threads(environ: MutableMapping[str, str]) -> None:
    """Give each process one BLAS thread, unless the operator chose otherwise.

    The matrices here are small, so threads cost far more than they gain.
    """
    for name in THREAD_LIMITS:
        environ.setdefault(name, "1")


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

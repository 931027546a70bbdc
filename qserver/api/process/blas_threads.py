"""One BLAS thread for each process; imports nothing, since it must come before numpy."""

from __future__ import annotations

from collections.abc import MutableMapping

THREAD_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def limit_threads(environ: MutableMapping[str, str]) -> None:
    """Give each process one BLAS thread, unless the operator chose otherwise.

    The matrices here are small, so threads cost far more than they gain.
    """
    for name in THREAD_LIMITS:
        environ.setdefault(name, "1")

"""What the figures were measured on, and how times are taken."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy

THREAD_LIMIT = "OPENBLAS_NUM_THREADS"


def machine_facts() -> dict[str, object]:
    """Processor, cores, versions, BLAS threads and the load before the run."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas_threads": os.environ.get(THREAD_LIMIT, "not limited"),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    facts = dict(part.split(":", 1) for part in lines if ":" in part)
    names = {k.strip(): v.strip() for k, v in facts.items()}
    found = names.get("model name", platform.machine())
    return f"{found}, {names['cpu MHz']} MHz" if "cpu MHz" in names else found


@dataclass(frozen=True)
class Times:
    """Times of single calls.

    Args:
        ms: in milliseconds, ascending, at least one.
    """

    ms: tuple[float, ...]

    @classmethod
    def of_seconds(cls, seconds: Iterable[float]) -> Times:
        """Times given in seconds, in any order."""
        return cls(tuple(sorted(1000.0 * s for s in seconds)))

    def __post_init__(self) -> None:
        if not self.ms:
            raise ValueError("`ms` must hold at least one time.")

    @property
    def median_ms(self) -> float:
        """The middle time."""
        return self.quantile_ms(0.5)

    def quantile_ms(self, level: float) -> float:
        """The time that a share `level` of the calls did not pass (the nearest rank)."""
        return self.ms[max(1, math.ceil(level * len(self.ms))) - 1]


def times_of(calls: Iterable[Callable[[], object]]) -> Times:
    """Processor times of this thread for the calls, one by one, in the order given.

    For pure computation, on one thread: unlike wall-clock time it leaves out what other programs
    on the machine take away.
    """
    seconds = []
    for call in calls:
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    return Times.of_seconds(seconds)

"""What the programs of all systems share: statements come in as JSON, answers go out, one a line.

It runs in the environments of other systems, so it needs Python alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.benchmarks.parts import used_below

Statement = Mapping[str, Any]
Rows = Sequence[tuple[str, float]]
Ask = Callable[[Statement], tuple[Rows, float]]
"""Rows of group and number, and the epsilon that the system says they cost."""


def serve(make: Callable[[str, int], Ask]) -> None:
    """Answer the statements on standard input; the first is asked once before, to warm up.

    Args:
        make: gets the path of the records as CSV, and how many there are.
    """
    asked = json.load(sys.stdin)
    ask = make(asked["data"], asked["records"])
    ask(asked["statements"][0])
    for statement in asked["statements"]:
        begun = _used_s()
        rows, epsilon = ask(statement)
        used_s = _used_s() - begun
        found = {"rows": [list(row) for row in rows], "epsilon": epsilon, "cpu_s": used_s}
        sys.stdout.write(json.dumps(found) + "\n")


def _used_s() -> float:
    """Of this process and all below it, such as a Java machine."""
    return time.process_time() + used_below()

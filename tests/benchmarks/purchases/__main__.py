"""`python -m tests.benchmarks.purchases`: play the stream of the figure, and keep what was spent.

It asks for ranges on four pairs of fifteen attributes, which return, and among them for three
attributes drawn anew each time. `python -m tests.docs` then draws the figure.
"""

from __future__ import annotations

import os

# numpy reads it once, when it loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import sys

from qserver.planning.blocks.rent_or_buy import RentOrBuy
from tests.benchmarks.many_attributes import Cache, played_by
from tests.benchmarks.many_streams import MANY_STREAMS

from .figure import KEPT

_STREAM = "4 pairs of 15 and others"
_SEED, _N = 9901, 400


def main() -> int:
    """Play the stream in three ways."""
    (stream,) = (s for s in MANY_STREAMS if s.name == _STREAM)
    asked = stream.questions(_SEED, _N)
    spent = {
        "exact cache": Cache(stream.sizes, combines=False).spent(asked),
        "rows alone": played_by(stream, asked, rule=None).spent,
        "with blocks": played_by(stream, asked, rule=RentOrBuy()).spent,
    }
    rounded = {way: [float(f"{x:.5g}") for x in found] for way, found in spent.items()}
    text = json.dumps({"stream": _STREAM, "seed": _SEED, "spent": rounded})
    KEPT.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

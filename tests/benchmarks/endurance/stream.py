"""The data of the test of endurance, and the questions that its users ask."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

N_RECORDS = 3_000
REPEATED, LOOSER = 0.60, 0.25
_REGIONS = tuple(f"r{i}" for i in range(10))
_HIGH = {"age": 99, "hours": 99}
_LENGTHS = (100.0, 400.0)
_CONFIDENCES = (0.9, 0.95)
# A larger one favours the questions that were asked first.
_FAVOUR = 3


@dataclass
class Stream:
    """Questions about one dataset: most were asked before, or history can answer them.

    Each question is one that was asked before with probability `REPEATED`; with `LOOSER` it is one
    of those with a longer interval, in words that were not used before; else it is new.
    """

    name: str
    seed: int
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} {self.name}")

    def next(self) -> dict[str, Any]:
        """The next question."""
        u = self._random.random()
        if not self.asked or u >= REPEATED + LOOSER:
            return self.fresh()
        earlier = self.asked[int(len(self.asked) * self._random.random() ** _FAVOUR)]
        if u < REPEATED:
            return earlier
        return {**earlier, "length": earlier["length"] * self._random.uniform(1.0, 3.0)}

    def fresh(self) -> dict[str, Any]:
        """A question on one to three attributes that was hardly asked before."""
        names = self._random.sample(("age", "hours", "region"), self._random.randint(1, 3))
        question = {
            "query": {"where": {name: self._condition(name) for name in names}},
            "length": round(self._random.uniform(*_LENGTHS)),
            "confidence": self._random.choice(_CONFIDENCES),
        }
        self.asked.append(question)
        return question

    def _condition(self, name: str) -> dict[str, Any] | list[str]:
        if name == "region":
            return sorted(self._random.sample(_REGIONS, self._random.randint(1, 5)))
        low, high = sorted(self._random.sample(range(_HIGH[name] + 1), 2))
        return {"between": [low, high]}


def write_domain(path: Path) -> Path:
    """The domain that all datasets have."""
    numbers: list[dict[str, object]] = [
        {"name": name, "kind": "integer", "range": [0, high], "outside": "clamp"}
        for name, high in _HIGH.items()
    ]
    regions: dict[str, object]
    regions = {"name": "region", "kind": "labels", "labels": list(_REGIONS), "outside": "other"}
    attributes = [{**a, "missing": "other"} for a in (*numbers, regions)]
    path.write_text(json.dumps({"attributes": attributes}), encoding="utf-8")
    return path


def write_records(path: Path, *, seed: str) -> Path:
    """A file of records, other ones for each seed."""
    generator = random.Random(seed)
    lines = [
        f"{generator.randint(0, 99)},{generator.randint(0, 99)},{generator.choice(_REGIONS)}\n"
        for _ in range(N_RECORDS)
    ]
    path.write_text("age,hours,region\n" + "".join(lines), encoding="utf-8")
    return path

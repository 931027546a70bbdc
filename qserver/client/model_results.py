"""What a client is told of models, as frozen objects that read well."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf
from typing import Any

from qserver.client.listing import MOST_SHOWN, Listing, library
from qserver.client.reading import FromJson, at
from qserver.client.results import Answer, Cost, Price
from qserver.text import epsilon_text


def _flat(nested: Any) -> Iterator[float]:
    if isinstance(nested, Sequence):
        for one in nested:
            yield from _flat(one)
    else:
        yield float(nested)


@dataclass(frozen=True, repr=False)
class LearntModel(FromJson):
    """A model that was learnt.

    Args:
        tables: ids of the released tables that it is made from.
        version: of the history that it stands on, for ever.
    """

    id: str
    kind: str
    cost: Cost = field(metadata=at())
    tables: tuple[int, ...]
    version: int

    def __repr__(self) -> str:
        return f"<LearntModel {self.id}: {self.kind} from {len(self.tables)} tables; {self.cost}>"


@dataclass(frozen=True, repr=False)
class ModelInfo(FromJson):
    """A model of a dataset.

    Args:
        charged: what it cost, in epsilon.
        specification: what the server made of the request.
        facts: of the model itself; None in lists.
    """

    id: str
    kind: str
    charged: float = field(metadata=at("epsilon_charged"))
    tables: tuple[int, ...]
    version: int
    specification: Mapping[str, Any]
    facts: Mapping[str, Any] | None

    def __repr__(self) -> str:
        cost = epsilon_text(self.charged)
        return f"<ModelInfo {self.id}: {self.kind} from {len(self.tables)} tables; cost {cost}>"


@dataclass(frozen=True, repr=False)
class Distribution(Listing, FromJson):
    """A joint distribution that a model gives, without a guarantee.

    Args:
        labels: per variable its labels, in the order of the probabilities.
        probabilities: one per joint value, the last variable's labels running fastest.
        n_records: expected number of records; None where the kind of model does not say it.
        is_held: whether one table of the model holds all these variables; None likewise.
    """

    variables: tuple[str, ...] = field(metadata=at("answer", "variables"))
    labels: tuple[tuple[str, ...], ...] = field(metadata=at("answer", "labels"))
    probabilities: tuple[float, ...] = field(metadata=at("answer", "probabilities", by=_flat))
    n_records: float | None = field(metadata=at("answer", "n_records"))
    is_held: bool | None = field(metadata=at("answer", "is_held"))
    version: int

    def __len__(self) -> int:
        return len(self.probabilities)

    def __getitem__(self, labels: str | tuple[str, ...]) -> float:
        """The probability of one label per variable; KeyError."""
        wanted = (labels,) if isinstance(labels, str) else tuple(labels)
        return self._by_labels[wanted]

    @cached_property
    def _by_labels(self) -> Mapping[tuple[str, ...], float]:
        return dict(zip(product(*self.labels), self.probabilities, strict=True))

    def records(self) -> list[dict[str, Any]]:
        """One dict per joint value: its labels by variable, and `probability`."""
        return [
            {**dict(zip(self.variables, labels, strict=True)), "probability": p}
            for labels, p in self._by_labels.items()
        ]

    def _lines(self) -> Iterator[list[str]]:
        for labels, p in list(self._by_labels.items())[:MOST_SHOWN]:
            yield [*labels, f"{p:.6f}"]

    def _header(self) -> Sequence[str]:
        return (*self.variables, "probability")

    def _rest(self) -> list[str]:
        more = len(self) - MOST_SHOWN
        rest = f"{more} more rows; " if more > 0 else ""
        return [f"{rest}a model's answer, without a guarantee"]


@dataclass(frozen=True)
class MostProbable(FromJson):
    """The most probable labels that a network gives, and their probability given the others."""

    labels: Mapping[str, str] = field(metadata=at("answer", "labels"))
    probability: float = field(metadata=at("answer", "probability"))
    version: int


@dataclass(frozen=True, repr=False)
class ModelCount(FromJson):
    """What a model expects a count to be.

    Args:
        guarantee: the interval of the check, or None: then there is none.
        verdict: `confirmed` where that interval holds the estimate, else `contradicted`, or None.
        fallback: what was measured where the check contradicted, or None.
    """

    estimate: float
    guarantee: Answer | None
    verdict: str | None
    fallback: Answer | None
    version: int

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        told = ["without a guarantee"]
        if self.guarantee is not None:
            told = [f"{self.verdict} by {self.guarantee!r}"]
        if self.fallback is not None:
            told.append(f"measured instead {self.fallback!r}")
        return f"<ModelCount {self.estimate:,.1f}, {'; '.join(told)}>"


@dataclass(frozen=True, repr=False)
class CheckPrice(FromJson):
    """What checking a model's answer would cost; nothing was spent.

    Args:
        estimate: what the model expects.
        would: `confirm` or `contradict` where history does so for nothing; `check` where the
            check is bought, which decides.
        check: its price; fallback: that of measuring where the check contradicts, asked now.
    """

    estimate: float
    would: str
    check: Price
    fallback: Price | None

    def __repr__(self) -> str:
        told = {
            "confirm": "history confirms it for nothing",
            "contradict": "history contradicts it for nothing",
        }.get(self.would, f"check {epsilon_text(self.check.price)}")
        if self.fallback is not None and self.would != "confirm":
            told += f"; measuring instead {epsilon_text(self.fallback.price)}"
        left = epsilon_text(self.check.remaining)
        return f"<CheckPrice of {self.estimate:,.1f}: {told}; of {left} epsilon left>"


@dataclass(frozen=True)
class ErrorBounds(FromJson):
    """How errors of a network's parameters reach its answers, by the noise of its tables alone.

    For a network whose values are all equally likely; probabilities once divided by the number of
    records.

    Args:
        parameter_least, parameter_greatest: standard deviations of parameters.
        term_lower, term_upper: of a term of elimination; the upper is infinite where the network
            is too wide to answer about all of it.
    """

    parameter_least: float
    parameter_greatest: float
    term_lower: float
    term_upper: float = field(
        metadata=at("term_upper", by=lambda term: inf if term is None else term)
    )


@dataclass(frozen=True, repr=False)
class LearningPrice(FromJson):
    """What learning a model would cost; nothing was spent. `document` is all that was told.

    Args:
        price, remaining: in epsilon.
        sample: what of the price is for a secret sample, or None.
        seconds, memory_bytes: what measuring and making a model of marginals takes, roughly, from
            sizes alone; None for a network.
        error: of a network, before it is bought; None of others and where a sample decides.
    """

    kind: str
    price: float
    sample: float | None
    remaining: float
    affordable: bool
    n_tables: int = field(metadata=at("plan", by=len))
    version: int
    seconds: float | None = field(metadata=at("work", "seconds"))
    memory_bytes: int | None = field(metadata=at("work", "memory_bytes"))
    error: ErrorBounds | None
    document: Mapping[str, Any] = field(compare=False, metadata=at())

    def __repr__(self) -> str:
        fits = "" if self.affordable else ", which is too much"
        return (
            f"<LearningPrice {epsilon_text(self.price)} of {epsilon_text(self.remaining)} epsilon "
            f"left{fits}; {self.n_tables} tables>"
        )


@dataclass(frozen=True, repr=False)
class SyntheticRecords:
    """Records drawn from a model.

    Args:
        csv: as the server sent them: a header, then a line per record.
    """

    csv: str = field(repr=False)

    @cached_property
    def _rows(self) -> list[tuple[str, ...]]:
        return list(map(tuple, csv.reader(io.StringIO(self.csv))))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return self._rows[0]

    def __len__(self) -> int:
        return len(self._rows) - 1

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._rows[1:])

    def records(self) -> list[dict[str, str]]:
        """One dict per record: labels by attribute."""
        return [dict(zip(self.columns, row, strict=True)) for row in self]

    def to_pandas(self) -> Any:
        """The records as a pandas.DataFrame of labels; ConfigError where there is no pandas."""
        return library("pandas").DataFrame(self._rows[1:], columns=list(self.columns))

    def to_arrow(self) -> Any:
        """The records as a pyarrow.Table of labels; ConfigError where there is no pyarrow."""
        columns = zip(*self, strict=True)
        named = zip(self.columns, map(list, columns), strict=True)
        return library("pyarrow").Table.from_pydict(dict(named))

    def __repr__(self) -> str:
        return f"<SyntheticRecords {len(self):,} records of {', '.join(self.columns)}>"

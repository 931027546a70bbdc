"""The results about models: frozen objects that show themselves in a terminal and a notebook.

Also what is known of the leaks of a network before it is learnt.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf
from typing import Any

from qserver.client.frames import MOST_SHOWN, Column, Framed, Listing
from qserver.client.results import Answer, Cost, FromJson, Price
from qserver.records.codec import at
from qserver.records.statement import WantedError
from qserver.text import at_delta, cost_text, left_text


@dataclass(frozen=True, repr=False)
class StructureFacts(FromJson):
    """What a structure says of leaks.

    Args:
        complexity: independent parameters of the model.
        table_complexity: independent numbers in the tables that would be released; an upper bound
            if `table_complexity_is_exact` is False.
        passes: the decision of the gate, with its `reason`; None without a gate.
        document: the server's whole reply.
    """

    complexity: int
    table_complexity: int
    table_complexity_is_exact: bool
    passes: bool | None = field(metadata=at("decision", "passes"))
    reason: str = field(metadata=at("decision", "reason", by=lambda text: text or ""))
    document: Mapping[str, Any] = field(compare=False, metadata=at())


@dataclass(frozen=True, repr=False)
class LeakAudit(StructureFacts):
    """How well anyone could tell whose records a network was learnt from.

    Args:
        bound, limit: areas under the curve of an attack: by the structure, and by the lesser of
            that and the cap; 1/2 is guessing.
        cap: the area that epsilon allows; None without an epsilon.
    """

    bound: float = field(metadata=at("auc", "bound"))
    limit: float = field(metadata=at("auc", "limit"))
    cap: float | None = field(metadata=at("auc", "cap"))

    def __repr__(self) -> str:
        verdict = {None: "", True: "; passes", False: "; refused"}[self.passes]
        return f"<LeakAudit area {self.limit:.4f} at most, {self.bound:.4f} by structure{verdict}>"


@dataclass(frozen=True, repr=False)
class StructureProposal(StructureFacts):
    """A structure proposed under a cap on leaks.

    Args:
        network: as `learn_network` takes it; without edges if not even one edge passes.
        score: sum of the scores of its attributes' parents.
    """

    network: Mapping[str, Any]
    score: float

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs (parent, child)."""
        return tuple((parent, child) for parent, child in self.network["edges"])

    def __repr__(self) -> str:
        verdict = "passes" if self.passes else "refused"
        return f"<StructureProposal {len(self.edges)} edges; {verdict}>"


def _flat(nested: Any) -> Iterator[float]:
    if isinstance(nested, Sequence):
        for one in nested:
            yield from _flat(one)
    else:
        yield float(nested)


@dataclass(frozen=True, repr=False)
class AnyModel(FromJson):
    """A model.

    Args:
        tables: ids of the released tables that it is made from.
        version: of the history that it is made from; it never changes.
    """

    id: str
    kind: str
    tables: tuple[int, ...]
    version: int

    def _shown(self, cost: object) -> str:
        of = f"{self.id}: {self.kind} from {len(self.tables)} tables; {cost}"
        return f"<{type(self).__name__} {of}>"


@dataclass(frozen=True, repr=False)
class LearntModel(AnyModel):
    """A model that was learnt."""

    cost: Cost = field(metadata=at())

    def __repr__(self) -> str:
        return self._shown(self.cost)


@dataclass(frozen=True, repr=False)
class ModelInfo(AnyModel):
    """A model of a dataset.

    Args:
        charged: its cost, in epsilon.
        specification: the request in the server's normal form.
        facts: about the model itself; None in lists.
        delta: as a `Cost` has it.
    """

    charged: float = field(metadata=at("epsilon_charged"))
    specification: Mapping[str, Any]
    facts: Mapping[str, Any] | None
    delta: float | None = None

    def __repr__(self) -> str:
        unit = "" if self.delta is None else f" epsilon{at_delta(self.delta)}"
        return self._shown(f"cost {cost_text(self.charged)}{unit}")


@dataclass(frozen=True, repr=False)
class Distribution(Listing, FromJson):
    """A joint distribution that a model gives, without a guarantee.

    Args:
        labels: for each variable its labels, in the order of the probabilities.
        probabilities: one per joint value; the labels of the last variable change fastest.
        n_records: expected number of records; None if the kind of model has none.
        is_held: whether one table of the model has all these variables; None likewise.
        merged: by attribute the lists of values that no table of the model tells apart.
    """

    variables: tuple[str, ...] = field(metadata=at("answer", "variables"))
    labels: tuple[tuple[str, ...], ...] = field(metadata=at("answer", "labels"))
    probabilities: tuple[float, ...] = field(metadata=at("answer", "probabilities", by=_flat))
    n_records: float | None = field(metadata=at("answer", "n_records"))
    is_held: bool | None = field(metadata=at("answer", "is_held"))
    version: int
    merged: Mapping[str, Sequence[Sequence[str]]] | None = field(
        default=None, metadata=at("answer", "merged")
    )

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

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        found = [
            Column(name, "text", [labels[i] for labels in self._by_labels])
            for i, name in enumerate(self.variables)
        ]
        return [*found, Column("probability", "number", list(self._by_labels.values()))]

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
    """The most probable labels by a network, and their probability given the other labels."""

    labels: Mapping[str, str] = field(metadata=at("answer", "labels"))
    probability: float = field(metadata=at("answer", "probability"))
    version: int


@dataclass(frozen=True, repr=False)
class ModelCount(FromJson):
    """A model's estimate of a count.

    Args:
        guarantee: the interval of the check; None without a check.
        verdict: `confirmed` if that interval contains the estimate, else `contradicted`; None
            without a check.
        fallback: the answer that was measured after a contradiction, or None.
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
    """The price of checking a model's answer; nothing was spent.

    Args:
        estimate: by the model.
        would: `confirm` or `contradict` if history decides without charge; `check` if the interval
            must be bought first.
        check: the price of the check.
        fallback: the present price of measuring after a contradiction, or None.
    """

    estimate: float
    would: str
    check: Price
    fallback: Price | None

    def __repr__(self) -> str:
        told = {
            "confirm": "history confirms it at no cost",
            "contradict": "history contradicts it at no cost",
        }.get(self.would, f"check {cost_text(self.check.price)}")
        if self.fallback is not None and self.would != "confirm":
            told += f"; measuring instead {cost_text(self.fallback.price)}"
        left = f"{left_text(self.check.remaining)} epsilon left{at_delta(self.check.delta)}"
        return f"<CheckPrice of {self.estimate:,.1f}: {told}; of {left}>"


@dataclass(frozen=True)
class ErrorBounds(FromJson):
    """Errors of a network's parameters and answers that come from the noise of its tables alone.

    They hold for a network whose values are all equally likely. Divided by the number of records
    they are probabilities.

    Args:
        parameter_least, parameter_greatest: standard deviations of parameters.
        term_lower, term_upper: bounds for a term of elimination. The upper bound is infinite if
            the network is too wide to answer about all variables.
    """

    parameter_least: float
    parameter_greatest: float
    term_lower: float
    term_upper: float = field(
        metadata=at("term_upper", by=lambda term: inf if term is None else term)
    )


@dataclass(frozen=True, repr=False)
class LearningPrice(FromJson):
    """The price of learning a model; nothing was spent. `document` is the server's whole reply.

    Args:
        price, remaining: in epsilon.
        sample: the part of the price for a secret sample, or None.
        second: the part for tables on merged values, which the first tables decide, or None.
        seconds, memory_bytes: rough needs of measuring and making a model of marginals, from sizes
            alone; None for a network.
        error: of a network, known before it is bought; None for other models, and if a sample
            decides.
        wanted: of each wanted marginal; empty for a network.
        delta: as a `Cost` has it.
    """

    kind: str
    price: float
    sample: float | None
    second: float | None
    remaining: float
    affordable: bool
    n_tables: int = field(metadata=at("plan", by=len))
    version: int
    seconds: float | None = field(metadata=at("work", "seconds"))
    memory_bytes: int | None = field(metadata=at("work", "memory_bytes"))
    error: ErrorBounds | None
    wanted: tuple[WantedError, ...]
    document: Mapping[str, Any] = field(compare=False, metadata=at())
    delta: float | None = None

    def __repr__(self) -> str:
        fits = "" if self.affordable else ", which is too much"
        return (
            f"<LearningPrice {cost_text(self.price)} of {left_text(self.remaining)} epsilon "
            f"left{at_delta(self.delta)}{fits}; {self.n_tables} tables>"
        )


@dataclass(frozen=True, repr=False)
class SyntheticRecords(Framed):
    """Records drawn from a model.

    Args:
        csv: the text as the server sent it: a header, then one line per record.
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

    def frame(self) -> list[Column]:
        """The columns of `records`."""
        columns = zip(*self, strict=True) if len(self) else [()] * len(self.columns)
        return [
            Column(name, "text", list(values))
            for name, values in zip(self.columns, columns, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<SyntheticRecords {len(self):,} records of {', '.join(self.columns)}>"

"""The interface of a kind of model: its face, its tables, learning, asking and sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from qserver.errors import InputError
from qserver.query import request_fields as fields
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import WantedError

if TYPE_CHECKING:
    from qserver.models.marginals.graph.layout import IndexArray, Scope
    from qserver.models.network.network import Table

Document = Mapping[str, Any]
_SIGN = ">"


@dataclass(frozen=True)
class FormText:
    """The text of a form that specifies a model.

    Args:
        name: of the input.
        hint: a sentence below it; may have HTML.
        example: with `{0}` and `{1}` for two attributes.
        read: the request's members that a text means; InputError where a line cannot be read.
    """

    name: str
    label: str
    hint: str
    example: str
    n_lines: int
    read: Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class KindFace:
    """The words that people see of a kind.

    Args:
        name: of one model of the kind.
        choice, offer: among the kinds of a form, and what it is good for.
        meaning: of the kind's name in a request.
        words: what a model is, from its specification or from the request; with the names of the
            dataset's attributes and the most parts that are to be named.
        file_ending, media_type: of an exported model.
    """

    name: str
    choice: str
    offer: str
    meaning: str
    fields: tuple[fields.Field, ...]
    text: FormText
    words: Callable[[Document, Sequence[str], int], str]
    file_ending: str
    media_type: str


def shortened(names: Sequence[str], most: int) -> str:
    """The first few names, and the number of others."""
    more = len(names) - most
    text = ", ".join(names[:most])
    return f"{text} and {more:,} more" if more > 0 else text


def _network_of(text: str) -> dict[str, Any]:
    if "{" in text:
        return {"network": text}
    lines = _lines(text)
    if not lines:
        raise InputError("structure", "have an edge `parent > child` on each line, or be BIF")
    edges, names = [], []
    for line in lines:
        parts = [part.strip() for part in line.replace("->", _SIGN).split(_SIGN)]
        if len(parts) > 2 or not all(parts):
            raise InputError("structure", "have an edge `parent > child` on each line", line[:80])
        if len(parts) == 2:
            edges.append(parts)
        names += parts
    return {"network": {"edges": edges, "variables": list(dict.fromkeys(names))}}


def _marginals_of(text: str) -> dict[str, Any]:
    found = []
    for line in _lines(text):
        names = [name.strip() for name in line.split(",")]
        if not all(names):
            raise InputError("marginals", "have names with commas between on each line", line[:80])
        found.append(names)
    return {"marginals": found}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _network_words(document: Document, _names: Sequence[str], most: int) -> str:
    found = document.get("network", document)
    if isinstance(found, str):
        return "the network in BIF"
    edges = [f"{parent} → {child}" for parent, child in found["edges"]]
    joined = {name for edge in found["edges"] for name in edge}
    return shortened([*edges, *(n for n in found["variables"] if n not in joined)], most)


def _marginals_words(document: Document, names: Sequence[str], most: int) -> str:
    # Specifications of earlier versions have places in the domain, not names.
    scopes = [
        " × ".join(n if isinstance(n, str) else names[n] for n in scope)
        for scope in document.get("marginals", [])
    ]
    merged = ", rare values merged" if document.get("selection") == "merged" else ""
    found = f"{shortened(scopes, most)} beside all of history" if scopes else "all of history"
    return found + merged


NETWORK_FACE = KindFace(
    name="Bayesian network",
    choice="Bayesian network",
    offer="of a structure that you know; buys one table per family or a few wide ones",
    meaning="a Bayesian network whose structure is given",
    fields=(fields.NETWORK, fields.ALLOCATION),
    text=FormText(
        name="structure",
        label="Structure of the network",
        hint="An edge <code>parent &gt; child</code> on each line; an attribute alone stands by "
        "itself. Or BIF: only its edges are used.",
        example="{0} > {1}",
        n_lines=5,
        read=_network_of,
    ),
    words=_network_words,
    file_ending="bif",
    media_type="text/plain; charset=utf-8",
)
MARGINALS_FACE = KindFace(
    name="Model of marginals",
    choice="Marginals",
    offer="all that released tables tell together, and the marginals that you name",
    meaning="whatever all tables of history tell together",
    fields=(fields.MARGINALS, fields.SELECTION, fields.ORACLE, fields.LIKELIHOOD),
    text=FormText(
        name="marginals",
        label="Marginals to buy",
        hint="One on each line, attributes with commas between. None: history alone, with a price "
        "of 0.",
        example="{0}, {1}",
        n_lines=4,
        read=_marginals_of,
    ),
    words=_marginals_words,
    file_ending="json",
    media_type="application/json",
)


@dataclass(frozen=True)
class MergedTable:
    """A table of a second purchase.

    Args:
        classes: by attribute the class of each of its values, numbered from 0.
        epsilon: by how much its charge rises, per record.
    """

    classes: Mapping[int, IndexArray]
    epsilon: float


@runtime_checkable
class MergingKind(Protocol):
    """A kind that may buy some tables first, whose answers decide the others; pure."""

    def first(
        self, specification: str, domain: Domain, *, epsilon: float
    ) -> tuple[WantedTable, ...]:
        """The tables of a first purchase, part of `epsilon`; empty if all are bought at once."""

    def second(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
        law: NoiseLaw = LAPLACE,
    ) -> tuple[MergedTable, ...]:
        """The other tables, whose rises add up to at most `epsilon`.

        Args:
            measurements: history, with the first tables.
            law: of the noise.
        """


@dataclass(frozen=True)
class WantedTable:
    """A marginal to measure.

    Args:
        axes: its attributes' positions in the domain, ascending.
        epsilon: charge of its cells afterwards, per record.
        is_more: whether `epsilon` adds to the epsilon that history has of the same table.
    """

    axes: tuple[int, ...]
    epsilon: float
    is_more: bool


@dataclass(frozen=True, eq=False)
class Answered:
    """A model's reply to a question in the terms of its kind; `document` is plain JSON."""

    document: dict[str, Any]


class Model(Protocol):
    """A model made from history; `ask`, `count` and `describe` are called one at a time."""

    def ask(self, question: Document) -> Answered:
        """The answer to a question in the kind's own terms.

        Raises:
            InputError, CapacityError: the question is wrong, or too large.
        """

    def count(self, query: LinearQuery) -> float:
        """The model's expectation of a linear query, in the query's units.

        Raises:
            InputError: the query is about attributes that the model lacks.
        """

    def columns(self) -> tuple[str, ...]:
        """Names of the attributes of a synthetic record."""

    def records(self, n: int, generator: np.random.Generator) -> Iterator[tuple[str, ...]]:
        """Synthetic records, as the names of their values."""

    def export(self) -> str:
        """The model as text in a format of its field."""

    def describe(self) -> dict[str, Any]:
        """Public facts of the model, as plain JSON."""


class ModelKind(Protocol):
    """A kind of model; pure and without state."""

    @property
    def face(self) -> KindFace:
        """The words of the kind in requests, forms and prose."""

    def read(self, document: Document, domain: Domain) -> str:
        """The specification as JSON text, from the analyst's document.

        Raises:
            InputError: the document is wrong; the message names the field.
        """

    def check_law(self, specification: str, law: NoiseLaw) -> None:
        """Return if a model may be learnt from tables with this noise.

        Raises:
            InputError: it may not.
        """

    def wanted(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
        law: NoiseLaw = LAPLACE,
    ) -> tuple[WantedTable, ...]:
        """The tables to buy, whose charges add up to at most `epsilon`, > 0; see `NoiseLaw`."""

    def used(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> tuple[int, ...]:
        """Ids of the measurements behind the model.

        Raises:
            InputError: they do not suffice for a model.
        """

    def build(
        self, specification: str, domain: Domain, measurements: Sequence[AnyMeasurement]
    ) -> Model:
        """The model; a function of its arguments alone."""


@runtime_checkable
class GrowingKind(Protocol):
    """A kind whose models are made faster from an earlier model."""

    def goes_on(self, specification: str, earlier: str) -> bool:
        """Whether models of two specifications differ only in the tables bought for them."""

    def rebuild(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        earlier: Model,
    ) -> Model:
        """The model of `build`, up to the precision that the kind states.

        Args:
            earlier: a model of this kind on another version of the history, whose specification
                this one continues.
        """


SAMPLING_RATE = Fraction(1, 10)
"""The probability that a record is in the sample."""
SAMPLE_SHARE = Fraction(1, 10)
"""The part of the price for the sample."""


@dataclass(frozen=True)
class TwoStages:
    """The tables of both stages, known before any data is read.

    Args:
        first: attributes' positions of each table of the sample, ascending; all at one price.
        final: those of each table of all records, each once; without attributes of one value.
    """

    first: tuple[tuple[int, ...], ...]
    final: tuple[tuple[int, ...], ...]


@runtime_checkable
class SampledKind(Protocol):
    """A kind with models in two stages; pure and without state."""

    def stages(self, specification: str, domain: Domain) -> TwoStages | None:
        """The tables of both stages; None for a model of one stage."""

    def shares(
        self, specification: str, domain: Domain, noisy: Sequence[Table]
    ) -> tuple[float, ...]:
        """The share of stage two's price for each final table, by the noisy counts of the sample.

        Args:
            noisy: noisy counts of each first table, one axis per attribute, ascending.

        Returns:
            Shares >= 0 in the order of `final` that add up to 1.
        """


def divided_nano(total_nano: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Whole parts > 0 of `total_nano` near these shares, which never add up to more.

    Args:
        total_nano: at least as many as there are shares.
    """
    exact = [Fraction(max(share, 0.0)) for share in shares]
    whole = sum(exact) or Fraction(1)
    # Each part has one for certain; the rest is divided exactly and rounded down.
    rest = total_nano - len(shares)
    return tuple(1 + int(rest * share / whole) for share in exact)


# Measured on one core of 2.5 GHz; rounded up. A round passes every part of every table some ten
# times, and pays for each table besides.
_BYTES_PER_PART_CELL = 128
_BYTES = 16 << 20
_ROUNDS = 200
_S_PER_PART_CELL = 2e-8
_S_PER_TABLE = 1e-5
_S_PER_MEASURED_CELL = 2.5e-5
_S_PER_TREE_CELL = 1e-7


@dataclass(frozen=True)
class ModelWork:
    """Memory and time for measuring tables and making a model, by order of magnitude.

    Args:
        n_tables: tables that the model is made from, of history too.
        n_cells: number of their cells.
        memory_bytes: memory of the process that makes the model, roughly.
        seconds: time of one core, roughly, measuring included.
    """

    n_tables: int
    n_cells: int
    memory_bytes: int
    seconds: float


@runtime_checkable
class WeighedKind(Protocol):
    """A kind that estimates the work of a model beforehand; pure and without state."""

    def work(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        bought: Sequence[Scope],
    ) -> ModelWork:
        """Memory and time for measuring the bought tables and making the model.

        Args:
            bought: attributes of the tables that would be measured or raised.
        """


@runtime_checkable
class ForetellingKind(Protocol):
    """A kind that foretells the error of wanted marginals; pure and without state."""

    def foretold(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        rises: Mapping[Scope, float],
        law: NoiseLaw = LAPLACE,
    ) -> tuple[WantedError, ...]:
        """The expected error of each wanted marginal.

        Args:
            rises: by how much the charge of each bought marginal rises, in the plan's order.
            law: of the noise.
        """


def marginals_work(
    sizes: Sequence[int],
    *,
    scopes: Iterable[Scope],
    bought: Iterable[Scope],
    n_tree_cells: int = 0,
) -> ModelWork:
    """The work of a model of marginals.

    Args:
        scopes: of all its tables, each once; values taken one by one, as fine as they can be.
        bought: of those that are measured for it.
        n_tree_cells: cells of the junction tree of an exact model.
    """
    scopes = tuple(scopes)
    # A table and all that it may share with others: the product of (values + 1).
    parts = sum(prod(sizes[a] + 1 for a in s) for s in scopes) + n_tree_cells
    measured = sum(prod(sizes[a] for a in s) for s in bought)
    round_s = _S_PER_PART_CELL * parts + _S_PER_TABLE * len(scopes)
    return ModelWork(
        n_tables=len(scopes),
        n_cells=sum(prod(sizes[a] for a in s) for s in scopes),
        memory_bytes=_BYTES + _BYTES_PER_PART_CELL * parts,
        seconds=_ROUNDS * (round_s + _S_PER_TREE_CELL * n_tree_cells)
        + _S_PER_MEASURED_CELL * measured,
    )

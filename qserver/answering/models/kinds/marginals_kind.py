"""Marginal-based estimation as a kind of model, from tables of history and rows inside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb, prod
from typing import Any, get_args

import numpy as np

from qserver.answering.models.kinds.kind import (
    MARGINALS_FACE,
    Answered,
    Document,
    MergedTable,
    Model,
    ModelWork,
    WantedTable,
    marginals_work,
)
from qserver.answering.models.kinds.marginal_tables import marginals, weighed
from qserver.answering.models.kinds.rare_values import FIRST_SHARE, merged, wide
from qserver.answering.models.kinds.reduced_history import (
    MAX_CELLS,
    ReducedHistory,
    reduced_history,
)
from qserver.answering.models.kinds.tables_to_buy import (
    MAX_MARGINALS,
    MISSED,
    best_prices,
    n_records,
    raised,
)
from qserver.errors import CapacityError, InputError
from qserver.models.marginals.estimate import (
    AUTO_CELLS,
    DRAW_BYTES,
    DRAW_CELLS,
    Estimate,
    Oracle,
    RecordSource,
    Warm,
    estimate,
    record_source,
)
from qserver.models.marginals.fit.observations import Likelihood
from qserver.models.marginals.graph.junction_tree import clique_tree
from qserver.models.marginals.graph.layout import FloatArray, IndexArray, Scope
from qserver.models.marginals.selection import expected_errors
from qserver.query.class_grid import MAX_TABLE_CELLS
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement, TableMeasurement
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import WantedError

MAX_PARTS = 1 << 20
"""Most parts of all wanted marginals together: one of k attributes has 2^k."""


def read_scopes(found: object, domain: Domain) -> list[Scope]:
    """The wanted marginals, each once, attributes rising.

    Raises:
        InputError: they are no lists of attributes, or more than a model holds.
    """
    if not isinstance(found, list) or len(found) > MAX_MARGINALS:
        raise InputError("marginals", f"be a list of at most {MAX_MARGINALS:,} lists of attributes")
    scopes = [tuple(sorted(axes_of(names, domain, "marginals"))) for names in found]
    for scope in scopes:
        cells = prod(domain.sizes[a] for a in scope)
        if cells > MAX_TABLE_CELLS:
            raise InputError("marginals", f"have at most {MAX_TABLE_CELLS:,} cells each", cells)
    scopes = list(dict.fromkeys(scopes))
    n_cells = sum(prod(domain.sizes[a] for a in s) for s in scopes)
    if n_cells > MAX_CELLS:
        raise InputError("marginals", f"have at most {MAX_CELLS:,} cells together", n_cells)
    n_parts = sum(1 << len(s) for s in scopes)
    if n_parts > MAX_PARTS:
        raise InputError("marginals", f"have at most {MAX_PARTS:,} parts together", n_parts)
    return scopes


def axes_of(names: object, domain: Domain, field: str) -> list[int]:
    """Positions of distinct attributes, in the order named; InputError."""
    if not isinstance(names, list) or not names:
        raise InputError(field, "be lists of one or more attributes")
    axes = [domain.axis(name) if isinstance(name, str) else None for name in names]
    found = [a for a in axes if a is not None]
    if len(found) < len(names) or len(set(found)) < len(names):
        raise InputError(field, "name attributes of the dataset, each once")
    return found


def measured(sizes: Sequence[int], measurements: Sequence[AnyMeasurement]) -> Mapping[Scope, float]:
    """Charges of the whole marginals that history has."""
    found: dict[Scope, float] = {}
    for m in weighed(measurements):
        if isinstance(m, TableMeasurement):
            parts = m.partition.axes
            if parts and all(p.n == sizes[p.axis] for p in parts):
                found[tuple(p.axis for p in parts)] = m.law.charge(m.scale)
    return found


MAX_ANSWER_CELLS = 100_000
_ROWS_AT_ONCE = 10_000
_MOST_CODES = 1 << 21
_PRECISION = 1e-3
# A request waits for the model: some two seconds at most.
_AUTO_CELLS = 1 << 14
_SELECTIONS = ("best", "listed", "merged")
_FIELDS = {"marginals", "selection", "oracle", "likelihood"}


class MarginalsKind:
    """Models fitted to all noisy marginals of history; see ModelKind."""

    face = MARGINALS_FACE

    def read(self, document: Document, domain: Domain) -> str:
        """The specification: marginals to buy, and how the model is estimated.

        Args:
            document: `marginals` (lists of attributes, wanted beside what history has),
                `selection` (`best`: measure what serves them best; `merged`: the same, with rare
                values merged; `listed`: measure them, evenly), `oracle` (`auto`, `exact`,
                `saturated`, `factor`) and `likelihood` (`squares`, `laplace`); all may be left out.
        """
        unknown = sorted(set(document) - _FIELDS)
        if unknown:
            raise InputError(unknown[0], "be left out: it is not of this kind of model")
        scopes = read_scopes(document.get("marginals", []), domain)
        plain = {
            "marginals": [[domain.names[a] for a in s] for s in scopes],
            "selection": _choice(document, "selection", _SELECTIONS),
            "oracle": _choice(document, "oracle", get_args(Oracle)),
            "likelihood": _choice(document, "likelihood", get_args(Likelihood)),
        }
        return json.dumps(plain)

    def check_law(self, specification: str, law: NoiseLaw) -> None:
        """Refuse the likelihood of Laplace noise where noise is Gaussian; see ModelKind."""
        if law.is_additive and json.loads(specification)["likelihood"] == "laplace":
            why = "squares are the likelihood of its Gaussian noise"
            raise InputError("likelihood", f"be `squares` in a population under zcdp: {why}")

    def wanted(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
        law: NoiseLaw = LAPLACE,
    ) -> tuple[WantedTable, ...]:
        """The tables that, with those of history, give the wanted marginals the least error.

        Where more than two attributes are wanted together, most or all of it may be for pairs.
        """
        plain = json.loads(specification)
        scopes = read_scopes(plain["marginals"], domain)
        if not scopes:
            raise InputError("marginals", "name what to buy where `epsilon` is above 0")
        if plain["selection"] == "listed":
            return tuple(WantedTable(s, epsilon / len(scopes), is_more=True) for s in scopes)
        known, records = measured(domain.sizes, measurements), n_records(measurements)
        prices = best_prices(domain.sizes, scopes, epsilon, known, records=records, law=law)
        return tuple(WantedTable(s, price, is_more=True) for s, price in prices.items())

    def first(
        self, specification: str, domain: Domain, *, epsilon: float
    ) -> tuple[WantedTable, ...]:
        """One-way tables of wide attributes whose values are to be merged; see MergingKind."""
        plain = json.loads(specification)
        if plain["selection"] != "merged":
            return ()
        axes = wide(domain.sizes, read_scopes(plain["marginals"], domain))
        return tuple(WantedTable((a,), FIRST_SHARE * epsilon / len(axes), True) for a in axes)

    def second(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        epsilon: float,
        law: NoiseLaw = LAPLACE,
    ) -> tuple[MergedTable, ...]:
        """The tables on merged values that determine the wanted marginals best; see MergingKind."""
        scopes = read_scopes(json.loads(specification)["marginals"], domain)
        single = {m.axes[0]: m.values for m in marginals(measurements) if len(m.axes) == 1}
        classes, prices = merged(
            domain.sizes,
            scopes,
            epsilon,
            measured(domain.sizes, measurements),
            counts={a: single[a] for a in wide(domain.sizes, scopes)},
            records=n_records(measurements),
            ordered={i: a.n_regular for i, a in enumerate(domain.attributes) if a.kind != "labels"},
            law=law,
        )
        return tuple(
            MergedTable({a: classes[a] for a in scope}, price) for scope, price in prices.items()
        )

    def foretold(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        rises: Mapping[Scope, float],
        law: NoiseLaw = LAPLACE,
    ) -> tuple[WantedError, ...]:
        """The expected error of each wanted marginal; see ForetellingKind."""
        scopes = read_scopes(json.loads(specification)["marginals"], domain)
        if not scopes or not rises:
            return ()
        known, each = measured(domain.sizes, measurements), sum(rises.values()) / len(scopes)
        both, missed = [rises, dict.fromkeys(scopes, each)], MISSED * n_records(measurements)
        errors, plain = (
            expected_errors(domain.sizes, scopes, raised(known, one), missed=missed, law=law)
            for one in both
        )
        return tuple(
            WantedError(
                attributes=tuple(domain.names[a] for a in scope),
                n_cells=prod(domain.sizes[a] for a in scope),
                deviation=float(errors[i]),
                as_wanted=float(plain[i]),
                tables=tuple(k for k, held in enumerate(rises) if set(scope) <= set(held)),
            )
            for i, scope in enumerate(scopes)
        )

    def work(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        bought: Sequence[Scope],
    ) -> ModelWork:
        """The effort to measure and make the model; see WeighedKind."""
        plain = json.loads(specification)
        if plain["selection"] == "merged":
            # The tables to buy are not known yet; they are smaller.
            bought = [*bought, *read_scopes(plain["marginals"], domain)]
        tables = [m for m in measurements if isinstance(m, TableMeasurement)]
        held = [tuple(p.axis for p in m.partition.axes) for m in tables]
        scopes = [s for s in dict.fromkeys([*held, *bought]) if s]
        n_tree_cells = 0
        if plain["oracle"] in ("auto", "exact"):
            n_tree_cells = clique_tree(domain.sizes, scopes).n_cells
            if n_tree_cells > _most_cells(plain["oracle"]):
                n_tree_cells = 0
        return marginals_work(domain.sizes, scopes=scopes, bought=bought, n_tree_cells=n_tree_cells)

    def used(
        self,
        specification: str,
        domain: Domain,  # noqa: ARG002
        measurements: Sequence[AnyMeasurement],
    ) -> tuple[int, ...]:
        """Ids of all tables and rows behind the model."""
        return _reduced(json.loads(specification), measurements).ids

    def build(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
    ) -> LearntMarginals:
        """The model from all tables and from the rows inside them."""
        return self._built(specification, domain, measurements, None)

    def goes_on(self, specification: str, earlier: str) -> bool:
        """Whether both specifications have the same estimator; see GrowingKind."""
        ours, theirs = json.loads(specification), json.loads(earlier)
        same = [ours.get("selection") == "merged", ours["oracle"], ours["likelihood"]]
        return same == [theirs.get("selection") == "merged", theirs["oracle"], theirs["likelihood"]]

    def rebuild(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        earlier: Model,
    ) -> LearntMarginals:
        """The same model, found faster from an earlier one, to the same gap; see GrowingKind."""
        if not isinstance(earlier, LearntMarginals):
            raise InputError("earlier", "be a model of this kind")
        return self._built(specification, domain, measurements, earlier)

    def _built(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        earlier: LearntMarginals | None,
    ) -> LearntMarginals:
        plain = json.loads(specification)
        reduced = _reduced(plain, measurements)
        found = estimate(
            reduced.sizes,
            reduced.measurements,
            oracle=plain["oracle"],
            likelihood=plain["likelihood"],
            total=reduced.total,
            precision=_PRECISION,
            max_cells=_most_cells(plain["oracle"]),
            warm=None if earlier is None else _carried(earlier, reduced),
        )
        return LearntMarginals(domain, reduced, found)


class LearntMarginals:
    """A model made from history, over classes of values; see Model.

    The values of a class share its records as a one-way table has them, or evenly.
    """

    def __init__(self, domain: Domain, reduced: ReducedHistory, found: Estimate) -> None:
        self.reduced, self.estimate = reduced, found
        self._domain = domain
        self._place = {axis: i for i, axis in enumerate(reduced.axes)}
        self._records_from: RecordSource | None = None

    def ask(self, question: Document) -> Answered:
        """`{"marginal": [names], "given": {name: label}}`: probabilities, all in one table."""
        if question.get("marginal") is None:
            raise InputError("marginal", "be given, or else `count`")
        axes = axes_of(question["marginal"], self._domain, "marginal")
        given = _values(question.get("given", {}), self._domain)
        if set(axes) & set(given):
            raise InputError("given", "be about other attributes than `marginal`")
        attributes = [self._domain.attributes[a] for a in axes]
        if prod(a.size for a in attributes) > MAX_ANSWER_CELLS:
            raise CapacityError(f"The answer would have more than {MAX_ANSWER_CELLS:,} cells.")
        scope = tuple(sorted(self._placed(a) for a in (*axes, *given)))
        found = self.estimate.distribution.marginal(scope)
        shown = self._at_values(found, scope, axes, given)
        total = float(shown.sum())
        if total <= 0:
            raise InputError("given", "have a probability above zero in the model")
        return Answered(
            {
                "variables": [a.name for a in attributes],
                "labels": [list(a.value_names) for a in attributes],
                "probabilities": (shown / total).tolist(),
                "n_records": self.estimate.total,
                "is_held": self.estimate.distribution.holds(scope),
                "merged": self._merged([*axes, *given]),
            }
        )

    def _at_values(
        self, found: FloatArray, scope: Scope, axes: Sequence[int], given: Mapping[int, int]
    ) -> FloatArray:
        """A table over classes at the given values, its other axes expanded to values."""
        domain_axes = [self.reduced.axes[i] for i in scope]
        for k in reversed(range(len(scope))):
            i, axis = scope[k], domain_axes[k]
            classes = self.reduced.classes[i]
            if axis in given:
                found = np.take(found, classes[given[axis]], axis=k)
                continue
            after = (1,) * (found.ndim - 1 - k)
            found = np.take(found, classes, axis=k) * self.reduced.shares[i].reshape(-1, *after)
        kept = [a for a in domain_axes if a not in given]
        return np.asarray(np.transpose(found, [kept.index(a) for a in axes]))

    def count(self, query: LinearQuery) -> float:
        """The total times the expectation of the query's weights."""
        total = 0.0
        for term in query.terms:
            weights = {}
            for axis, w in term.by_axis.items():
                i = self._placed(axis)
                weights[i] = np.bincount(
                    self.reduced.classes[i], w.dense * self.reduced.shares[i]
                ).astype(np.float64)
            mean = self.estimate.distribution.expectation(weights)
            total += float(term.coefficient) * mean
        return self.estimate.total * total

    def columns(self) -> tuple[str, ...]:
        """Names of the attributes that a table has."""
        return tuple(self._domain.names[a] for a in self.reduced.axes)

    def records(self, n: int, generator: np.random.Generator) -> Iterator[tuple[str, ...]]:
        """Synthetic records, drawn in large batches, which fit the model's tables best."""
        if self._records_from is None:
            self._records_from = record_source(self.estimate)
        names = [
            np.array(self._domain.attributes[a].value_names, dtype=object)
            for a in self.reduced.axes
        ]
        most = max(_MOST_CODES // len(self.reduced.axes), 1)
        drawn = (
            part
            for start in range(0, n, most)
            for part in _parted(self._records_from.draw(min(most, n - start), generator))
        )
        for part in drawn:
            columns = [
                name[_values_of(c, self.reduced.shares[i], part[:, i], generator)]
                for i, (name, c) in enumerate(zip(names, self.reduced.classes, strict=True))
            ]
            yield from zip(*columns, strict=True)

    def export(self) -> str:
        """Every table of the model as JSON: attributes, the values of each class, counts."""
        layout, total = self.estimate.layout, self.estimate.total
        names = self.columns()
        plain = {
            "total": total,
            "classes": {
                name: _members(self._domain.attributes[a].value_names, c)
                for name, a, c in zip(names, self.reduced.axes, self.reduced.classes, strict=True)
            },
            "merged": self._merged(self.reduced.axes),
            "shares": {
                name: _members(s.tolist(), c)
                for name, s, c in zip(names, self.reduced.shares, self.reduced.classes, strict=True)
            },
            "tables": [
                {
                    "attributes": [names[i] for i in scope],
                    "counts": (total * layout.table(self.estimate.tables, k)).tolist(),
                }
                for k, scope in enumerate(layout.scopes)
            ],
        }
        return json.dumps(plain)

    def describe(self) -> dict[str, Any]:
        """How the model was found, and its gap to the optimum; this is no bound on its error."""
        fit, names = self.estimate.fit, self.columns()
        return {
            "variables": list(names),
            "tables": [[names[i] for i in s] for s in self.estimate.layout.scopes],
            "n_records": self.estimate.total,
            "free": self._free_shares(),
            "n_left_out": self.reduced.n_left_out,
            "merged": self._merged(self.reduced.axes),
            "oracle": fit.oracle,
            "method": fit.method,
            "likelihood": fit.likelihood,
            "exact_cells": str(fit.exact_cells),
            "loss": fit.loss,
            "noise_loss": fit.noise_loss,
            "gap": fit.gap,
            "inconsistency": fit.inconsistency,
            "steps": fit.steps,
            "records": {"most_cells": DRAW_CELLS, "most_bytes": DRAW_BYTES},
        }

    def _merged(self, axes: Sequence[int]) -> dict[str, list[list[str]]]:
        """By attribute the lists of values that no table distinguishes, beside their own shares."""
        found = {}
        for axis in axes:
            classes = self.reduced.classes[self._placed(axis)]
            members = _members(self._domain.attributes[axis].value_names, classes)
            found[self._domain.names[axis]] = [one for one in members if len(one) > 1]
        return {name: lists for name, lists in found.items() if lists}

    def _free_shares(self) -> dict[str, float]:
        """The part of all pairs, and of all triples, of attributes that one table holds."""
        scopes, n = self.estimate.layout.scopes, len(self._domain.names)
        held = {k: {p for s in scopes for p in combinations(s, k)} for k in (2, 3)}
        return {str(k): len(found) / comb(n, k) for k, found in held.items() if n >= k}

    def _placed(self, axis: int) -> int:
        if axis not in self._place:
            name = self._domain.names[axis]
            raise InputError("attribute", "be one that history has a table of", name)
        return self._place[axis]


def _reduced(plain: Mapping[str, Any], measurements: Sequence[AnyMeasurement]) -> ReducedHistory:
    """The reduced history of a model of this specification."""
    return reduced_history(measurements, keeps_classes=plain.get("selection") == "merged")


def _parted(records: IndexArray) -> Iterator[IndexArray]:
    """The records in batches, since names take more memory than codes."""
    for start in range(0, len(records), _ROWS_AT_ONCE):
        yield records[start : start + _ROWS_AT_ONCE]


def _most_cells(oracle: str) -> int:
    """The most cells that an exact model may hold."""
    return _AUTO_CELLS if oracle == "auto" else AUTO_CELLS


def _choice(document: Document, field: str, choices: Sequence[str]) -> str:
    value = document.get(field, choices[0])
    if value not in choices:
        raise InputError(field, "be one of " + ", ".join(f"`{c}`" for c in choices), value)
    return str(value)


def _values(given: object, domain: Domain) -> dict[int, int]:
    """The position of the value of each named attribute."""
    if not isinstance(given, Mapping):
        raise InputError("given", "be an object of a label per attribute")
    found = {}
    for name, label in given.items():
        axis = domain.axis(str(name))
        value = domain.attributes[axis].index_of_name(str(label)) if axis is not None else None
        if axis is None or value is None:
            raise InputError("given", "name attributes of the dataset and their labels", name)
        found[axis] = value
    return found


def _carried(earlier: LearntMarginals, reduced: ReducedHistory) -> Warm | None:
    """The earlier model's state on the new classes, or None if these are coarser."""
    place = {axis: i for i, axis in enumerate(reduced.axes)}
    places, classes = [], []
    for axis, coarse in zip(earlier.reduced.axes, earlier.reduced.classes, strict=True):
        if axis not in place:
            return None
        fine = reduced.classes[place[axis]]
        of_class = np.zeros(int(fine.max()) + 1, dtype=np.intp)
        of_class[fine] = coarse
        if not np.array_equal(of_class[fine], coarse):
            return None
        places.append(place[axis])
        classes.append(of_class)
    return earlier.estimate.warm.refined(reduced.sizes, places, classes)


def _members(each: Sequence[Any], classes: IndexArray) -> list[list[Any]]:
    """The members of each class."""
    found: list[list[Any]] = [[] for _ in range(int(np.max(classes)) + 1)]
    for one, c in zip(each, classes, strict=True):
        found[int(c)].append(one)
    return found


def _values_of(
    classes: IndexArray, shares: FloatArray, drawn: IndexArray, generator: np.random.Generator
) -> IndexArray:
    """A value for each drawn class, by the shares of its values."""
    order = np.argsort(classes, kind="stable")
    ends = shares[order].cumsum()  # Each class ends at a whole number.
    places = np.searchsorted(ends, drawn + generator.random(len(drawn)), side="right")
    firsts = np.searchsorted(classes[order], np.arange(int(classes.max()) + 2))
    return np.asarray(order[np.clip(places, firsts[drawn], firsts[drawn + 1] - 1)])

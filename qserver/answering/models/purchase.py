"""Plan the tables that a model needs beyond history, and make the model from all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from qserver.answering.models.kinds.kind import (
    SAMPLE_SHARE,
    SAMPLING_RATE,
    ForetellingKind,
    MergingKind,
    SampledKind,
    TwoStages,
    WantedTable,
)
from qserver.answering.models.kinds.marginal_tables import (
    Marginal,
    marginal_partition,
    marginals,
    weighed,
)
from qserver.answering.replica import Replica
from qserver.errors import InputError
from qserver.models.network.learning.amplification import amplified_nano, nominal_nano
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, proven
from qserver.planning.purchase import Purchase
from qserver.query.class_grid import ProductPartition, product_partition
from qserver.query.domain import Domain
from qserver.query.question import ModelAsked
from qserver.records.answer import ModelAnswer
from qserver.records.charge import NANO
from qserver.records.dataset import DatasetMeta
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable, Sampled, Second
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.records.statement import WantedError

if TYPE_CHECKING:
    from qserver.models.network.error_bounds import ErrorBounds


_TOO_LITTLE = "be enough for every table to cost a nano-epsilon"


def plan_model(replica: Replica, asked: ModelAsked) -> Plan | None:
    """The tables to measure or raise for a model; None for history alone.

    Raises:
        InputError: the specification is wrong, or no table is worth a nano-epsilon, or data arrive
            over time, or the kind needs noise of another law.
    """
    # Kinds load slowly: only a process with requests for models loads them.
    from qserver.answering.models.kinds.registry import kind_of

    check_whole(replica.meta)
    domain, kind, law = replica.meta.domain, kind_of(asked.kind), replica.meta.law
    kind.check_law(asked.specification, law)
    if asked.epsilon_nano == 0:
        return None
    holdings = replica.holdings
    stages = kind.stages(asked.specification, domain) if isinstance(kind, SampledKind) else None
    if stages is not None:
        plan = sampled_plan(holdings, replica, stages, price_nano=asked.epsilon_nano)
        return proven(plan, ledger=replica.ledger)
    unit, before = _unit(holdings), replica.present.standing.lost_nano
    price_nano = replica.meta.shown.loss_nano(before, asked.epsilon_nano)
    epsilon, second = price_nano / NANO / unit, None
    wanted = (
        kind.first(asked.specification, domain, epsilon=epsilon)
        if isinstance(kind, MergingKind)
        else ()
    )
    if wanted:
        second = _second(wanted, unit, price_nano)
    elif epsilon:
        history = replica.measurements
        wanted = kind.wanted(asked.specification, domain, history, epsilon=epsilon, law=law)
    else:
        raise InputError("epsilon", _TOO_LITTLE)
    tables = _planned(holdings, replica, wanted)
    if not tables:
        return None
    if second is not None:
        # As the second tables: the charge of whole tables is at least that of their draws.
        tables = tuple(replace(table, sources=()) for table in tables)
    priced = holdings.priced(Purchase((), tables, second=second))
    plan = Plan("blocks", (), priced.price_nano, priced.spent_after_nano, None, tables=tables)
    return proven(replace(plan, second=second), ledger=replica.ledger)


def _unit(holdings: Holdings) -> int:
    """The cost of a unit of charge for the dearest table, and for a sample.

    It is k^p for k records per person, under replace-one twice that; less of tables that tell apart
    only what neighbours share, such as periods.
    """
    return round(holdings.most_cost_of(set(range(len(holdings.ledger.sizes)))))


def _second(first: Sequence[WantedTable], unit: int, price_nano: int) -> Second:
    """The part of the price that the first tables leave.

    Raises:
        InputError: nothing.
    """
    paid = sum(floor(table.epsilon * NANO) for table in first)
    alpha = price_nano // unit - paid
    if paid < len(first) or alpha < 1:
        raise InputError("epsilon", _TOO_LITTLE)
    return Second(alpha, unit * alpha)


def second_tables(
    replica: Replica, asked: ModelAsked, *, alpha_nano: int
) -> tuple[PlannedTable, ...]:
    """The tables of a second purchase, once history has the first; reads no data.

    Args:
        alpha_nano: most sum of the tables' charges.
    """
    from qserver.answering.models.kinds.registry import kind_of

    kind = kind_of(asked.kind)
    if not isinstance(kind, MergingKind):
        return ()
    domain, history, law = replica.meta.domain, replica.measurements, replica.meta.law
    found = kind.second(asked.specification, domain, history, epsilon=alpha_nano / NANO, law=law)
    raises = _raises(
        replica, [(product_partition(domain.sizes, t.classes), t.epsilon, True) for t in found]
    )
    # Rows that are cells of a table paid no part of this charge, which has no cells.
    return tuple(replace(table, sources=()) for table in replica.holdings.raised(raises))


def check_whole(meta: DatasetMeta) -> None:
    """Return unless data arrive over time, or have a time: a model's tables need all cells at once,
    some of them without a time.

    Raises:
        InputError: they do.
    """
    if meta.growth is not None:
        raise InputError(
            "dataset",
            "have all its data: no model is learnt while they arrive",
            hint=f"Ask for counts by `{meta.growth.attribute}`; models need tables whose cells are "
            "all sealed.",
        )
    if meta.time:
        raise InputError(
            "dataset",
            f"have no attribute that every table tells apart, as `{meta.time}` is here",
            hint="A model's tables are of other attributes too. Attach the data without --time.",
        )


def learnt(
    replica: Replica, asked: ModelAsked, *, charged_nano: int, remaining_nano: int
) -> ModelAnswer:
    """The model from the replica's history; its id, the job's, is added later.

    Raises:
        InputError: history does not suffice for it.
    """
    from qserver.answering.models.kinds.registry import kind_of

    used = kind_of(asked.kind).used(asked.specification, replica.meta.domain, replica.measurements)
    return ModelAnswer("", asked.kind, charged_nano, remaining_nano, used, replica.n_events)


def sampled_plan(
    holdings: Holdings, replica: Replica, stages: TwoStages, *, price_nano: int
) -> Plan:
    """The plan of both stages for at most `price_nano`.

    Both are reserved before the sample is drawn, whatever the sample will decide.

    Raises:
        InputError: the price is too small for every table to get a nano-epsilon.
    """
    sampled = _sampled(stages, _unit(holdings), price_nano)
    live = {m.key: m for m in replica.measurements if isinstance(m, TableMeasurement)}
    raises = []
    for axes in stages.final:
        partition = marginal_partition(replica.meta.domain.sizes, axes)
        old = live.get(partition.key)
        paid = 0 if old is None else old.alpha_nano
        raises.append((partition, old, paid + sampled.alpha_nano))
    # Rows that are cells of a table paid no part of this charge, which has no cells.
    tables: tuple[PlannedTable, ...] = tuple(
        replace(table, sources=()) for table in holdings.raised(raises)
    )
    priced = holdings.priced(Purchase((), tables, sampled))
    return Plan(
        "blocks",
        (),
        priced.price_nano,
        priced.spent_after_nano,
        None,
        tables=tables,
        sampled=sampled,
    )


def _sampled(stages: TwoStages, unit: int, price_nano: int) -> Sampled:
    each = nominal_nano(int(price_nano * SAMPLE_SHARE) // unit, rate=SAMPLING_RATE)
    first_alpha = each // len(stages.first)
    sample = unit * amplified_nano(first_alpha * len(stages.first), rate=SAMPLING_RATE)
    alpha = (price_nano - sample) // unit
    if first_alpha < 1 or alpha < len(stages.final):
        raise InputError("epsilon", _TOO_LITTLE, price_nano / NANO)
    return Sampled(first_alpha, sample, alpha, unit * alpha)


def _planned(
    holdings: Holdings, replica: Replica, wanted: tuple[WantedTable, ...]
) -> tuple[PlannedTable, ...]:
    sizes = replica.meta.domain.sizes
    raises = _raises(
        replica, [(marginal_partition(sizes, t.axes), t.epsilon, t.is_more) for t in wanted]
    )
    if wanted and not raises and not all(t.epsilon * NANO >= 1 for t in wanted):
        raise InputError("epsilon", _TOO_LITTLE)
    return holdings.raised(raises)


def _raises(
    replica: Replica, wanted: Sequence[tuple[ProductPartition, float, bool]]
) -> list[tuple[ProductPartition, TableMeasurement | None, int]]:
    """Tables in the form of `Holdings.raised`.

    Args:
        wanted: of each the cells, the charge, and whether it adds to what the same cells have paid.
    """
    live = {m.key: m for m in weighed(replica.measurements) if isinstance(m, TableMeasurement)}
    found = list[tuple[ProductPartition, TableMeasurement | None, int]]()
    for partition, epsilon, is_more in wanted:
        old = live.get(partition.key)
        paid = 0 if old is None else old.alpha_nano
        # Rounded down, so that all together cost no more than the asked price.
        alpha = floor(epsilon * NANO) + (paid if is_more else 0)
        if alpha > paid:
            found.append((partition, old, alpha))
    return found


@runtime_checkable
class BoundedKind(Protocol):
    """A kind whose errors have bounds before the purchase; pure and without state."""

    def error_bounds(
        self, specification: str, domain: Domain, released: Sequence[Marginal]
    ) -> ErrorBounds | None:
        """Bounds by the noise of the future tables, times the number of records."""


def foretold_error(replica: Replica, asked: ModelAsked, plan: Plan | None) -> ErrorBounds | None:
    """Bounds on the errors of a model's answers after `plan`; reads no answer.

    Args:
        plan: the purchase; None for history alone.

    Returns:
        None if the kind gives no bounds, or if a secret sample decides on the noise.
    """
    from qserver.answering.models.kinds.registry import kind_of

    kind = kind_of(asked.kind)
    if not isinstance(kind, BoundedKind) or (plan is not None and plan.sampled is not None):
        return None
    planned = () if plan is None else plan.tables
    known = {one.axes: one for one in marginals(replica.measurements)}
    bought = [_marginal(table, replica.meta.law, known) for table in planned]
    axes = {one.axes for one in bought}
    released = (*(one for one in known.values() if one.axes not in axes), *bought)
    return kind.error_bounds(asked.specification, replica.meta.domain, released)


def foretold_wanted(
    replica: Replica, asked: ModelAsked, plan: Plan | None
) -> tuple[WantedError, ...]:
    """The expected error of each wanted marginal after `plan`; reads no answer."""
    from qserver.answering.models.kinds.registry import kind_of

    kind = kind_of(asked.kind)
    if not isinstance(kind, ForetellingKind) or plan is None or plan.second is not None:
        return ()
    domain, history, law = replica.meta.domain, replica.measurements, replica.meta.law
    rises = {_axes(t): t.charge_nano / NANO for t in plan.tables}
    return kind.foretold(asked.specification, domain, history, rises=rises, law=law)


def _axes(table: PlannedTable) -> tuple[int, ...]:
    return tuple(a.axis for a in table.partition.axes)


def _marginal(
    table: PlannedTable, law: NoiseLaw, known: Mapping[tuple[int, ...], Marginal]
) -> Marginal:
    """The table as it will be released, with the known answers of its cells; without values."""
    axes, scale = _axes(table), law.like_laplace(law.scale(table.alpha_nano))
    if law.is_additive and axes in known:
        scale = (scale**-2 + known[axes].scale ** -2) ** -0.5
    return Marginal((), axes, scale, np.broadcast_to(0.0, table.partition.shape))

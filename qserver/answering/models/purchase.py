"""What a model's tables cost, beside those that history has, and what it is made from."""

from __future__ import annotations

from math import floor

from qserver.answering.models.kinds.kind import WantedTable
from qserver.answering.models.kinds.marginal_tables import marginal_partition
from qserver.answering.models.kinds.registry import kind_of
from qserver.answering.models.kinds.sampled_kind import SampledKind
from qserver.answering.models.sampled_purchase import sampled_plan
from qserver.answering.replica import Replica
from qserver.errors import InputError
from qserver.planning.feasibility import proven
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.query.question import ModelAsked
from qserver.records.answer import ModelAnswer
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable


def plan_model(replica: Replica, asked: ModelAsked) -> Plan | None:
    """The tables that are to be measured or raised for a model; None for history alone.

    Raises:
        InputError: the specification is wrong, or no table is worth a nano-epsilon.
    """
    if asked.epsilon_nano == 0:
        return None
    limit = replica.present.budget.limit_nano
    holdings = Holdings(replica.engine, replica.ledger, limit, replica.rule.cells)
    domain, kind = replica.meta.domain, kind_of(asked.kind)
    stages = kind.stages(asked.specification, domain) if isinstance(kind, SampledKind) else None
    if stages is not None:
        plan = sampled_plan(holdings, replica, stages, price_nano=asked.epsilon_nano)
        return proven(plan, ledger=replica.ledger, allowed_nano=replica.allowed_nano)
    # Under replace-one, and where a person owns several records, a unit of 1 / b costs more.
    unit = holdings.cost_of(((0, 1),))
    wanted = kind.wanted(
        asked.specification,
        domain,
        replica.measurements,
        epsilon=asked.epsilon_nano / NANO / unit,
    )
    tables = _planned(holdings, replica, wanted)
    if not tables:
        return None
    priced = holdings.priced(Purchase((), tables))
    plan = Plan("blocks", (), priced.price_nano, priced.spent_after_nano, None, tables=tables)
    return proven(plan, ledger=replica.ledger, allowed_nano=replica.allowed_nano)


def learnt(
    replica: Replica, asked: ModelAsked, *, charged_nano: int, remaining_nano: int
) -> ModelAnswer:
    """The model on what the replica has read; its id is the job's, which is not known here.

    Raises:
        InputError: history does not suffice for it.
    """
    used = kind_of(asked.kind).used(asked.specification, replica.meta.domain, replica.measurements)
    return ModelAnswer("", asked.kind, charged_nano, remaining_nano, used, replica.n_events)


def _planned(
    holdings: Holdings, replica: Replica, wanted: tuple[WantedTable, ...]
) -> tuple[PlannedTable, ...]:
    live = {m.key: m for m in replica.measurements if isinstance(m, TableMeasurement)}
    raises = []
    for table in wanted:
        partition = marginal_partition(replica.meta.domain.sizes, table.axes)
        old = live.get(partition.key)
        paid = 0 if old is None else old.alpha_nano
        # Rounded down, so that all together cost no more than was said.
        alpha = floor(table.epsilon * NANO) + (paid if table.is_more else 0)
        if alpha > paid:
            raises.append((partition, old, alpha))
    if wanted and not raises and not all(t.epsilon * NANO >= 1 for t in wanted):
        raise InputError("epsilon", "be enough for every table to cost a nano-epsilon")
    return holdings.raised(raises)

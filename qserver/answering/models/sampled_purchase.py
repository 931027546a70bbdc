"""What two stages cost: reserved whole before the sample is drawn, whatever it will decide."""

from __future__ import annotations

from dataclasses import replace

from qserver.answering.models.kinds.marginal_tables import marginal_partition
from qserver.answering.models.kinds.sampled_kind import SAMPLE_SHARE, SAMPLING_RATE, TwoStages
from qserver.answering.replica import Replica
from qserver.errors import InputError
from qserver.models.network.learning.amplification import amplified_nano, nominal_nano
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan
from qserver.planning.purchase import Purchase
from qserver.records.charge import NANO
from qserver.records.history import TableMeasurement
from qserver.records.plan import PlannedTable, Sampled


def sampled_plan(
    holdings: Holdings, replica: Replica, stages: TwoStages, *, price_nano: int
) -> Plan:
    """The plan of both stages for at most `price_nano`.

    Raises:
        InputError: the price is too small for every table to get a nano-epsilon.
    """
    # k records per person, and under replace-one twice that: as of any table, and of the sample.
    unit = round(holdings.cost_of(((0, 1),)))
    sampled = _sampled(stages, unit, price_nano)
    live = {m.key: m for m in replica.measurements if isinstance(m, TableMeasurement)}
    raises = []
    for axes in stages.final:
        partition = marginal_partition(replica.meta.domain.sizes, axes)
        old = live.get(partition.key)
        paid = 0 if old is None else old.alpha_nano
        raises.append((partition, old, paid + sampled.alpha_nano))
    # Rows that are cells of a table have paid nothing of it: the charge has no cells.
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
        raise InputError(
            "epsilon", "be enough for every table to cost a nano-epsilon", price_nano / NANO
        )
    return Sampled(first_alpha, sample, alpha, unit * alpha)

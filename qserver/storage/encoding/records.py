"""Released answers and their weights: their JSON forms in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

from qserver.errors import StoreError
from qserver.query.linear import LinearQuery
from qserver.records.history import (
    AnyMeasurement,
    Estimator,
    Measurement,
    TableMeasurement,
    place_measurement,
)
from qserver.records.plan import Planned, PlannedRow, PlannedTable
from qserver.storage.encoding.sealed import reading, sealed, unsealed

_WEIGHTS = "weights"


def measurement_json(planned: Planned, indices: Sequence[int], job: str) -> str:
    """JSON text of a released row or table, new or one that `refines` another.

    Args:
        indices: lattice indices, one for a row, one per cell for a table.
    """
    # A lattice index may exceed 2^53, so it travels as text.
    text = " ".join(map(str, indices))
    return json.dumps({**planned.to_plain(), "index": text, "job": job})


def public_row_json(row: LinearQuery, key: str, value: Fraction) -> str:
    """JSON text of a public row: exact, without noise, free."""
    step = Fraction(1, value.denominator)
    planned = PlannedRow(row, key, 0, step)
    return measurement_json(planned, [value.numerator], "attach")


def measurements_from_json(
    texts: Sequence[str], *, next_id: int, sizes: Sequence[int], n_known: int = 0
) -> tuple[AnyMeasurement, ...]:
    """The released rows and tables of a history's events, in order.

    Args:
        next_id: number of earlier measurements, without refinements.
        n_known: the first events were read before: their rows are read when they are needed.
    """
    found: list[AnyMeasurement] = []
    for i, text in enumerate(texts):
        plain = json.loads(text)
        refines = plain.get("refines")
        number = next_id if refines is None else refines
        next_id += refines is None
        found.append(_measurement(number, plain, sizes, is_known=i < n_known))
    return tuple(found)


def measurements_in_force(texts: Sequence[str], *, sizes: Sequence[int]) -> list[AnyMeasurement]:
    """The measurements of a whole history by id, each with its last refinement."""
    found: list[AnyMeasurement] = []
    for event in measurements_from_json(texts, next_id=0, sizes=sizes):
        place_measurement(found, event)
    return found


def _measurement(
    number: int, plain: Mapping[str, Any], sizes: Sequence[int], *, is_known: bool
) -> AnyMeasurement:
    indices = tuple(map(int, plain["index"].split()))
    if "table" in plain:
        table = PlannedTable.from_plain(plain, sizes)
        return TableMeasurement(number, table.partition, table.alpha_nano, table.step, indices)
    row = PlannedRow.from_plain(plain, sizes, is_known=is_known)
    return Measurement(number, row.row, row.key, row.alpha_nano, row.step, *indices)


def estimator_plain(estimator: Estimator) -> dict[str, Any]:
    """Certified weights as plain JSON values; floats survive exactly."""
    weights = [list(w) for w in estimator.weights]
    plain = {"key": estimator.key, "weights": weights, "error": estimator.float_error}
    return plain if estimator.at is None else {**plain, "at": estimator.at}


def estimator_from_plain(plain: Mapping[str, Any]) -> Estimator:
    """The weights that `estimator_plain` wrote."""
    weights = tuple((int(i), float(w)) for i, w in plain["weights"])
    return Estimator(plain["key"], weights, float(plain.get("error", 0.0)), plain.get("at"))


def estimator_json(estimator: Estimator) -> str:
    """JSON text of certified weights."""
    return json.dumps(estimator_plain(estimator))


def kept_estimator(estimator: Estimator) -> str:
    """Certified weights as the store's list keeps them."""
    return sealed(estimator_json(estimator), name=_WEIGHTS)


@reading("remembered weights")
def read_estimators(texts: Sequence[str]) -> tuple[Estimator, ...]:
    """The weights that `kept_estimator` wrote; StoreCorruptError."""
    return tuple(estimator_from_json(unsealed(text, name=_WEIGHTS)) for text in texts)


def estimator_from_json(text: str) -> Estimator:
    """The weights that `estimator_json` wrote."""
    return estimator_from_plain(json.loads(text))


def reply_code(reply: object) -> int:
    """The code at the start of every script's reply."""
    if not isinstance(reply, list) or not reply:
        raise StoreError("A script of the store gave a reply of another form.")
    return int(cast("int", reply[0]))

"""What a question's prior means on a dataset: its ends, where the public state gives them."""

from __future__ import annotations

from dataclasses import replace

from qserver.answering.answer import offer_from
from qserver.answering.consistency import PUBLIC_CONFIDENCE, public_total
from qserver.answering.replica import Replica
from qserver.query.asking.reading import Reading
from qserver.query.linear import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question, Workload


def with_ends(replica: Replica, asked: Question | Workload) -> Question | Workload:
    """The request with the ends of its prior, if it is one question that has one.

    Raises:
        InputError: the prior says nothing true of the query or of the dataset.
    """
    if not isinstance(asked, Question) or asked.reading.prior is None:
        return asked
    return replace(asked, reading=reading_on(replica, asked.row, asked.reading))


def reading_on(replica: Replica, row: Primitive, reading: Reading) -> Reading:
    """The reading with the ends of its prior; raises as `with_ends` does."""
    prior = reading.prior
    needs_total = prior is not None and prior.kind == "known-total"
    return reading.on(row, total=known_total(replica) if needs_total else None)


def known_total(replica: Replica) -> int | None:
    """The number of records where that is public."""
    total = primitive(total_query(replica.meta.domain.sizes))
    found = replica.engine.estimate(total, confidence=PUBLIC_CONFIDENCE)
    if found is None:
        return None
    return public_total(offer_from(total, found, confidence=PUBLIC_CONFIDENCE))


def most_records(replica: Replica) -> float:
    """How many records there can be: by what was released of their number, or by the public cap."""
    total = primitive(total_query(replica.meta.domain.sizes))
    found = replica.engine.estimate(total, confidence=PUBLIC_CONFIDENCE)
    cap = float(replica.meta.most_records)
    offer = None if found is None else offer_from(total, found, confidence=PUBLIC_CONFIDENCE)
    return cap if offer is None else max(1.0, min(cap, offer.high))

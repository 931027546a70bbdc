"""What the store is given when a job is charged, as the journal keeps it, to give it again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from qserver.storage.encoding.requests import Reservation


@dataclass(frozen=True)
class Replay:
    """A reservation with the ledger's lines, and the audit log's since the charge before.

    Both are byte for byte what the store had: each line names the digest of the one before.
    """

    reservation: Reservation
    charges: tuple[str, ...]
    changes: tuple[str, ...]


def replay_text(reservation: Reservation, charges: Sequence[str], *, changes: Sequence[str]) -> str:
    """The JSON text that `replay_from_text` reads back."""
    plan = reservation.to_json()
    return json.dumps({"plan": plan, "charges": list(charges), "changes": list(changes)})


def replay_from_text(text: str) -> Replay:
    """What `replay_text` wrote."""
    plain = json.loads(text)
    reservation = Reservation.from_json(plain["plan"])
    return Replay(reservation, tuple(plain["charges"]), tuple(plain["changes"]))

"""Bounds on connections: how many, how long they may be silent, how long a message may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on connections.

    Args:
        most: connections at a time.
        most_of_one: of them from one address that is not this machine's.
        idle_s: how long a client may be silent between messages, in seconds.
        message_s: how long the rest of a message, or sending an answer, may take.
        max_bytes: of a message; a longer one ends the connection.
    """

    most: int = 64
    most_of_one: int = 32
    idle_s: float = 3600.0
    message_s: float = 30.0
    max_bytes: int = 1 << 20

"""Wishes of owners in the store, until one is confirmed on the trusted side, or a week has passed.

The online side adds them and can do nothing else by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from qserver.config import Settings
from qserver.errors import CapacityError, ConfigError, InputError, NotFoundError
from qserver.storage.encoding.wish import COMMANDS, Wish
from qserver.storage.keys import WISHES
from qserver.storage.server.connection import StoreClient, connect

MOST = 50
_WEEK_S = 7 * 86_400


class Wishes:
    """The wishes of a store. Thread-safe as its client is.

    Args:
        wall_clock: Unix time in seconds.
    """

    commands = COMMANDS
    """What can be asked for, by kind."""

    def __init__(self, client: StoreClient, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._wall_clock = wall_clock

    @classmethod
    def open(cls, settings: Settings, *, role: str) -> Wishes:
        """Those of the store of the settings; StoreError."""
        return cls(connect(settings.store_url, role=role))

    def add(self, kind: str, values: Mapping[str, str], *, by: str) -> Wish:
        """Keep a wish.

        Raises:
            InputError: it is none.
            CapacityError: too many wait.
        """
        wish = Wish(kind, values, by, int(self._wall_clock()))
        if self._client.hlen(WISHES) >= MOST:
            raise CapacityError(f"{MOST} requests wait already. Confirm or drop some first.")
        self._client.hset(WISHES, wish.digest, wish.to_json())
        return wish

    def all(self, program: str = "") -> list[Wish]:
        """Those that wait, of a program if one is named, the newest first; no other text."""
        found: dict[Any, Any] = self._client.hgetall(WISHES)
        wishes = [wish for digest, text in found.items() if (wish := self._read(digest, text))]
        ours = [wish for wish in wishes if program in ("", wish.command.program)]
        return sorted(ours, key=lambda wish: -wish.at)

    def one(self, digest: str, program: str) -> Wish:
        """The wish with just this digest; NotFoundError, or ConfigError if another confirms it."""
        text: Any = self._client.hget(WISHES, digest)
        wish = None if text is None else self._read(digest, str(text))
        if wish is None:
            raise NotFoundError("request", digest[:80])
        if wish.command.program != program:
            raise ConfigError("id", f"be confirmed by `{wish.command.confirmed_by}`", digest)
        return wish

    def drop(self, digest: str) -> None:
        """Forget a wish, and all that are too old or none."""
        found: dict[Any, Any] = self._client.hgetall(WISHES)
        gone = [key for key, text in found.items() if not self._read(key, text)]
        self._client.hdel(WISHES, digest, *gone)

    def _read(self, digest: str, text: str) -> Wish | None:
        try:
            wish = Wish.from_json(text)
        except InputError:
            return None
        is_due = abs(self._wall_clock() - wish.at) <= _WEEK_S
        # Whoever writes to the store cannot put another wish under a digest that was read.
        return wish if wish.digest == digest and is_due else None

"""Find the powers of a store's user beyond its role, without using them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import redis

from qserver.errors import StoreError, StoreUnavailableError
from qserver.storage.keys import ACCOUNTS, AUDIT, TOKENS, Keys
from qserver.storage.server.connection import StoreClient

Role = Literal["web", "worker"]
# No population can have this name, so no data have these keys; rules for users go by pattern.
_NOBODYS = Keys("qserver doctor")
_NOTHING = "qserver doctor"


@dataclass(frozen=True)
class _Power:
    """A command that changes nothing, and the power that permission for it means."""

    words: str
    command: tuple[str, ...]
    roles: tuple[Role, ...]


_POWERS = (
    _Power("write the ledger", ("EXPIRE", _NOBODYS.ledger, "1"), ("web",)),
    _Power("write charges", ("EXPIRE", _NOBODYS.charges, "1"), ("web",)),
    _Power("write answers", ("EXPIRE", _NOBODYS.history("s"), "1"), ("web",)),
    _Power("shorten the audit log", ("LTRIM", AUDIT, "0", "-1"), ("web",)),
    _Power("write accounts", ("HDEL", ACCOUNTS, _NOTHING), ("web", "worker")),
    _Power("write tokens", ("HDEL", TOKENS, _NOTHING), ("web", "worker")),
    _Power("change settings", ("CONFIG", "SET", _NOTHING, "1"), ("web", "worker")),
    _Power("remove users", ("ACL", "DELUSER", _NOTHING), ("web", "worker")),
)


def forbidden_powers(client: StoreClient, *, role: Role) -> list[str]:
    """The powers of the client's user that its role never needs, in words; empty if all is well.

    Each command is tried without effect: on a key, field, setting or user that does not exist. The
    server refuses a forbidden command before it looks at that.

    Raises:
        StoreUnavailableError: the server does not answer.
    """
    return [p.words for p in _POWERS if role in p.roles and _may(client, p.command)]


def _may(client: StoreClient, command: tuple[str, ...]) -> bool:
    try:
        client.execute_command(*command)
    except StoreUnavailableError:
        raise
    except redis.ResponseError:
        # The command was allowed, and its arguments were wrong.
        return True
    except StoreError as exc:
        return "does not let this user do that" not in str(exc)
    return True

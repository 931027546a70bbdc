"""What a process of the online side opens when it starts: the store, and who may ask."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qserver.api.access import Access, OpenAccess, TokenAccess
from qserver.errors import StoreUnavailableError

if TYPE_CHECKING:
    from qserver.config import Settings
    from qserver.storage.store import Store

# A process that is started while the store is on its way back shall not end, and the server with
# it: gunicorn gives up when one cannot start.
_STORE_WAIT_S = 10.0
_STORE_POLL_S = 0.05
# A worker takes some seconds to load its data, more on a busy machine. What is asked meanwhile
# waits for it as for an answer.
STARTING_S = 30.0


def access_of(store: Store, settings: Settings) -> Access:
    """Who may ask: accounts, or whoever is on this machine."""
    from qserver.storage.accounts import AccountBook
    from qserver.storage.rates import RateLimiter

    if settings.open_access:
        return OpenAccess()
    return TokenAccess(
        AccountBook(store.client),
        RateLimiter(store.client),
        token_rate=settings.token_rate,
        address_rate=settings.address_rate,
    )


def open_store(settings: Settings) -> Store:
    """The store, which may be about to start; raises as `Store.open` when it is late."""
    from qserver.storage.store import Store

    deadline = time.monotonic() + _STORE_WAIT_S
    while True:
        try:
            return Store.open(settings)
        except StoreUnavailableError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_STORE_POLL_S)

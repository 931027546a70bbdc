"""The chain of a history: each event names the one before, and the ledger has the last digest.

Whoever reads events checks them from where it stopped before up to the head. The worker's journal
has the head as well, at every release, so a change of events and head together is found there.
"""

from __future__ import annotations

from collections.abc import Sequence

from qserver.errors import StoreCorruptError
from qserver.records.audit_chain import GENESIS, check_links, digest_of, is_linked
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.sealed import ADVICE
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient


def check_history(
    texts: Sequence[str], *, head: str | None, snapshot: str, after: str | None = GENESIS
) -> None:
    """Return if these events follow one another up to the head.

    Args:
        texts: the events after the one with the digest `after`, to the last.
        head: digest of the last event in the ledger; None in a store of an earlier version, whose
            events name no others. A worker chains it when it starts.

    Raises:
        StoreCorruptError: an event was changed, moved, added or removed, or the head was.
    """
    if head is None and not after and not any(map(is_linked, texts)):
        return
    found = check_links(texts, name=f"the history of snapshot {snapshot}", prev=after or GENESIS)
    if found != head:
        raise StoreCorruptError(
            f"The history of snapshot {snapshot} does not end as it was published. {ADVICE}"
        )


def check_charges(texts: Sequence[str], *, after: str, head: str | None) -> None:
    """Return if these charges follow one another, after the one with the digest `after`.

    Args:
        head: digest of the last charge in the ledger; None in a store of an earlier version. The
            worker's journal has it as well.

    Raises:
        StoreCorruptError: a charge was changed, moved, added or removed.
    """
    if texts and (after != GENESIS or is_linked(texts[0])):
        check_links(texts, name="the charges", prev=after)
    if head is not None and head != (digest_of(texts[-1]) if texts else after):
        raise StoreCorruptError(f"The charges do not end as they were made. {ADVICE}")


def read_history(client: StoreClient, meta: DatasetMeta) -> list[str]:
    """Every event of a snapshot's history, checked up to its head."""
    keys, snapshot = Keys(meta.population), meta.snapshot
    pipe = client.pipeline(transaction=True)
    pipe.lrange(keys.history(snapshot), 0, -1)
    pipe.hget(keys.ledger, f"head:{snapshot}")
    texts, head = pipe.execute()
    check_history(texts, head=head, snapshot=snapshot)
    return list(texts)

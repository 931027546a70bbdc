"""`qserver-worker restore`: the owner runs it on a restored store before anything is drawn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from qserver.config import Settings
from qserver.errors import ConfigError, JournalError
from qserver.records.charge import epsilon_text
from qserver.storage.encoding.sealed import ADVICE
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.owner.rebuild import lost_texts
from worker.owner.recovery import Recovered, Recovery, adopt
from worker.private.registry import Registry
from worker.spending.spend import Spender

_SHOWN = 5
_UNKNOWN = """\
Population {population} has no journal. The store says that {spent} of {limit} epsilon are spent,
after {version} charges. Without the journal nobody can know
  - whether more was charged, in a store that was lost since: then more than {spent} is spent;
  - which answers were released beyond the {version} charges: asked again, they would be drawn
    again, and two draws tell more than one;
  - whether the store's {version} charges are those that were made.
Put the journal back if it is anywhere to be found. If you know that this store forgot nothing (it
was never restored from a backup, or nothing was asked since the backup), say so:
  qserver-worker restore --accept-loss {population}
Your word is then written into a new journal. Otherwise leave the population as it is: history is
still answered, and nothing is drawn."""


def restore(
    settings: Settings,
    *,
    registry: Registry,
    accept_loss: Sequence[str],
    log: logging.Logger,
    say: Callable[[str], None],
) -> bool:
    """Bring the store up to every journal; False if a population lacks its journal.

    Args:
        accept_loss: populations whose journal is lost, where the owner vouches for the store.

    Raises:
        ConfigError: nothing is attached here, or an accepted population is not.
        StoreBehindError: the store and a journal have parted.
    """
    populations = sorted({entry.population for entry in registry.entries().values()})
    if not populations:
        raise ConfigError("state", "hold an attached dataset", hint="Its worker folder is empty.")
    for name in accept_loss:
        if name not in populations:
            raise ConfigError("accept-loss", "name a population of this worker", name)
    reader, writer = Store.open(settings, role="worker-reader"), SpendingStore.open(settings)
    lost = [name for name in populations if not registry.has_journal(name)]
    for name in set(lost) & set(accept_loss):
        _check_whole(registry, name)
        adopt(name, reader=reader, writer=writer, registry=registry)
        say(f"Population {name}: a new journal begins, on your word.")
    held = [name for name in populations if registry.has_journal(name)]
    journals = {name: registry.journal(name, create=False) for name in held}
    spender = Spender.without_data(
        journals, reader=reader, writer=writer, settings=settings, log=log
    )
    recovery = Recovery(reader=reader, writer=writer, spender=spender, registry=registry)
    for journal in journals.values():
        recovery.put_back_log(journal)
    for name, journal in journals.items():
        say(_recovered_text(recovery.bring_up(name, journal)))
    for name in sorted(set(populations) - set(held)):
        say(_unknown_text(name, writer))
    for text in lost_texts(reader, populations):
        say(f"Changed in the store, and in no journal: the {text}. Restore it from a backup.")
    return len(held) == len(populations)


def _check_whole(registry: Registry, population: str) -> None:
    """Return unless the journal alone says what is sealed of a dataset; JournalError."""
    for entry in registry.entries().values():
        if entry.population == population and entry.grows:
            raise JournalError(
                f"Dataset {entry.name} has data that arrive over time: only the journal says which "
                "parts are sealed. Restore it, or detach the dataset first."
            )


def _recovered_text(found: Recovered) -> str:
    mended = f" Changed answers were mended: {found.n_mended} snapshots." if found.n_mended else ""
    if found.changed:
        mended = (
            f" All was given back anew, as this was not the journal's: {_listed(found.changed)}."
        )
    if found.left:
        mended += f" NOT given back, as the journal cannot: {_listed(found.left)}."
    return (
        f"Population {found.population}: {found.n_attached} datasets and {found.n_charged} charged "
        f"jobs were given back.{mended} The store agrees with the journal: {found.ledger_version} "
        f"charges, {epsilon_text(found.spent_nano)} epsilon spent."
    )


def _listed(parts: Sequence[str]) -> str:
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    # Whoever reads this has just run what the advice says.
    return "; ".join(part.removesuffix(ADVICE).rstrip(" .") for part in parts[:_SHOWN]) + more


def _unknown_text(population: str, writer: SpendingStore) -> str:
    if not writer.has_ledger(population):
        return (
            f"Population {population} has neither a journal nor a ledger in the store: what was "
            "spent is lost. Restore one of them; nothing is drawn until then."
        )
    budget = writer.owner.budget(population)
    return _UNKNOWN.format(
        population=population,
        spent=epsilon_text(budget.spent_nano),
        limit=epsilon_text(budget.limit_nano),
        version=budget.version,
    )

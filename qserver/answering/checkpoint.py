"""A replica's state as a checkpoint, and its reading.

All of it is public: what charges, rows, released answers and paid questions lead to, which every
reader of the store computes anew without one. The head names all that the figures depend on. What
fits in no more is left, and the replica replays the history.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qserver.checkpoint.file import CheckpointError, CheckpointFolder, code_version, name_of
from qserver.config import Settings
from qserver.records.dataset import DatasetMeta
from qserver.records.state import State
from qserver.storage.encoding.cursor import Cursor

_log = logging.getLogger("qserver.checkpoint")


@dataclass(frozen=True)
class Saved:
    """What a checkpoint keeps.

    Args:
        cursor: the position in the store's lists up to which everything is in it.
        state: of the replica's parts.
    """

    cursor: Cursor
    state: State


def kept(saved: Saved, folder: CheckpointFolder, meta: DatasetMeta, settings: Settings) -> None:
    """Write a checkpoint; OSError if that is impossible."""
    cursor = asdict(saved.cursor)
    name = name_of({k: cursor[k] for k in ("head", "charges_head", "paid_head")})
    state = saved.state
    head = {**state.head, "of": facts_of(meta, settings), "cursor": cursor}
    folder.keep(meta.snapshot, name, State(head, state.arrays))


def found(folder: CheckpointFolder | None, meta: DatasetMeta, settings: Settings) -> Saved | None:
    """The checkpoint of a snapshot; None if there is none of this code and these facts.

    Whether it is of the store's history is for the replica to see.
    """
    if folder is None:
        return None
    try:
        state = folder.load(meta.snapshot)
        if state is None:
            return None
        of, cursor = state.head["of"], Cursor(**state.head["cursor"])
    except (CheckpointError, KeyError, TypeError) as exc:
        note_ignored(meta, str(exc))
        return None
    if of != facts_of(meta, settings):
        note_ignored(meta, "it was made by other code, or for other facts or settings")
        return None
    return Saved(cursor, state)


def note_ignored(meta: DatasetMeta, reason: str) -> None:
    """Write down that a checkpoint is of no use; nobody else notices but by the time it takes."""
    _log.warning("the checkpoint of snapshot %s is ignored: %s", meta.snapshot, reason)


def facts_of(meta: DatasetMeta, settings: Settings) -> Mapping[str, Any]:
    """What the figures depend on besides the store's lists."""
    return {"code": code_version(), "meta": meta.to_json(), "max_rows": settings.max_rows}

"""A dataset's public facts in the store: sealed with its name."""

from __future__ import annotations

from qserver.errors import StoreCorruptError
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.sealed import ADVICE, reading, sealed, unsealed


def meta_text(meta: DatasetMeta) -> str:
    """The facts as the store keeps them."""
    return sealed(meta.to_json(), name=meta.name)


@reading("facts of a dataset")
def read_meta(text: object, *, name: str) -> DatasetMeta:
    """The facts that `meta_text` wrote of the dataset of this name.

    Raises:
        StoreCorruptError: they are missing, were changed, or are another dataset's.
    """
    if not isinstance(text, str):
        raise StoreCorruptError(f"The store lacks the facts of dataset {name!r}. {ADVICE}")
    found = DatasetMeta.from_json(unsealed(text, name=name))
    if found.name != name:
        raise StoreCorruptError(f"The facts of dataset {name!r} are another's. {ADVICE}")
    return found

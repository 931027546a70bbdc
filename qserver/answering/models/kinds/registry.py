"""The kinds of model by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from qserver.answering.models.kinds.kind import ModelKind
from qserver.answering.models.kinds.marginals_kind import MarginalsKind
from qserver.answering.models.kinds.network_kind import NetworkKind
from qserver.errors import InputError

KINDS: Mapping[str, ModelKind] = MappingProxyType(
    {"network": NetworkKind(), "marginals": MarginalsKind()}
)


def kind_of(name: str) -> ModelKind:
    """The kind of this name; InputError for an unknown one."""
    found = KINDS.get(name)
    if found is None:
        raise InputError("kind", "be one of " + ", ".join(f"`{k}`" for k in KINDS), name)
    return found

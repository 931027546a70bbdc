"""Correlations of attributes in a released model, from which a structure is proposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.answering.models.kinds.kind import Answered
from qserver.answering.models.kinds.network_kind import check_learnable
from qserver.errors import CapacityError, InputError, NetworkError
from qserver.models.network.structure import Correlations, Structure, correlations
from qserver.models.tracing.structure_proposal import Candidates
from qserver.query.class_grid import MAX_TABLE_CELLS
from qserver.query.domain import Domain

MAX_VARIABLES = 64
"""Most attributes that a structure is proposed over: every pair is asked of the model."""
MAX_PAIR_CELLS = 1 << 22
"""Most cells of all pairs together."""


@dataclass(frozen=True, eq=False)
class Correlated:
    """Correlations of attributes in a model.

    Args:
        labels: the labels of each attribute, by name.
        corr: Cramer's V of every pair.
    """

    labels: Mapping[str, tuple[str, ...]]
    corr: Correlations

    def candidates(self, *, max_parents: int, min_gain: float) -> Candidates:
        """The learnable structures over these attributes."""
        return Candidates(
            self.labels,
            self.corr,
            max_parents=max_parents,
            min_gain=min_gain,
            max_cells=MAX_TABLE_CELLS,
            fits=_is_learnable,
        )


def correlated(
    domain: Domain,
    columns: Sequence[str],
    variables: Sequence[str] | None,
    ask: Callable[[Mapping[str, Any]], Answered],
) -> Correlated:
    """The correlations of a model's attributes, from its answers alone.

    Args:
        columns: the model's attributes.
        variables: of which; all of them for None.
        ask: the model.

    Raises:
        InputError: an attribute that the model lacks, or one twice, or none.
        CapacityError: too many attributes, or pairs of too many values.
    """
    names = list(columns if variables is None else variables)
    if not names or len(set(names)) < len(names) or not set(names) <= set(columns):
        raise InputError("variables", "name attributes of the model, each once")
    labels = {a.name: tuple(a.value_names) for a in domain.attributes if a.name in names}
    cells = sum(len(labels[a]) * len(labels[b]) for a, b in combinations(names, 2))
    if len(names) > MAX_VARIABLES or cells > MAX_PAIR_CELLS:
        raise CapacityError(
            f"A structure is proposed over at most {MAX_VARIABLES} attributes whose pairs have "
            f"{MAX_PAIR_CELLS:,} cells together. Name fewer `variables`."
        )

    def table(one: str, other: str) -> NDArray[np.float64]:
        found = ask({"marginal": [one, other]}).document["probabilities"]
        return np.asarray(found, dtype=np.float64)

    return Correlated({name: labels[name] for name in names}, correlations(names, table))


def _is_learnable(structure: Structure) -> bool:
    try:
        check_learnable(structure)
    except NetworkError:
        return False
    return True

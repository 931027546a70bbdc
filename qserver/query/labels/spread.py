"""Conditions on a level as conditions on the labels below it."""

from __future__ import annotations

from qserver.query.domain import Attribute
from qserver.query.labels.levels import Level
from qserver.query.weights import ScaledWeights, from_points


def attribute_of(level: Level, attribute: Attribute) -> Attribute:
    """The level as an attribute whose labels are its groups, for reading a condition.

    Args:
        attribute: the one whose labels it joins.
    """
    return Attribute(
        name=level.name,
        kind="labels",
        labels=level.groups,
        outside="other" if attribute.has_other else "drop",
        missing=attribute.missing,
        other=attribute.other,
    )


def spread(groups: ScaledWeights, level: Level, attribute: Attribute) -> ScaledWeights:
    """The weights of the labels, each that of its group; `other` keeps its own."""
    of_groups = groups.weights.dense
    points = {i: int(of_groups[group]) for i, group in enumerate(level.group_of)}
    if attribute.has_other:
        points[attribute.n_regular] = int(of_groups[len(level.groups)])
    found = from_points(attribute.size, points)
    return ScaledWeights(groups.factor * found.factor, found.weights)

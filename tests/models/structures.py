"""Structures by sizes alone, for tests to which labels mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qserver.models.network.structure import Structure, structure_of_edges


def labels_of(sizes: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Numbers as the labels of variables of these sizes."""
    return {name: tuple(map(str, range(size))) for name, size in sizes.items()}


def sized(sizes: Mapping[str, int], edges: Sequence[tuple[str, str]]) -> Structure:
    """The structure of variables of these sizes with these (parent, child) edges."""
    return structure_of_edges(labels_of(sizes), edges)

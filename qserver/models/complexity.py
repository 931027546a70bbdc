"""How many independent numbers a directed model tells, by itself or by tables of counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from qserver.models.structure import Structure

MAX_INTERACTIONS = 1 << 17


def complexity_of(parents: Mapping[int, tuple[int, ...]], sizes: Sequence[int]) -> int:
    """C = sum over i of |V(Pa_i)| (|V(X_i)| - 1), over the variables that `parents` names.

    Args:
        parents: the parents of each variable, by position.
        sizes: how many values each variable has.

    References:
        Murakonda, Shokri and Theodorakopoulos, equation 2 and appendix D.
    """
    return sum(prod(sizes[p] for p in its) * (sizes[i] - 1) for i, its in parents.items())


def complexity(structure: Structure) -> int:
    """C of a structure: the model's independent parameters."""
    return complexity_of(dict(enumerate(structure.parents)), structure.sizes)


def table_complexity(sizes: Sequence[int], scopes: Iterable[Sequence[int]]) -> int:
    """Independent numbers in tables of counts over these scopes, besides the total.

    A private learner releases noisy tables, not only conditional probabilities. Two parents that a
    model holds independent still meet in a table, so tables tell more than the model; wider ones
    tell more still. Together they span one dimension for each interaction within a table: the
    product of (size - 1) over its variables. Beyond 131,072 interactions the tables' cells are
    counted instead, which may be more, never less.

    Args:
        sizes: how many values each variable has.
        scopes: positions of each table's variables.
    """
    tables = [[i for i in scope if sizes[i] > 1] for scope in scopes]
    if sum(2 ** len(table) for table in tables) > MAX_INTERACTIONS:
        return sum(prod(sizes[i] for i in table) - 1 for table in tables)
    found = {part for table in tables for part in _parts(table)}
    return sum(prod(sizes[i] - 1 for i in part) for part in found)


def _parts(table: Sequence[int]) -> Iterator[frozenset[int]]:
    """All non-empty sets of variables of a table."""
    for k in range(1, len(table) + 1):
        yield from map(frozenset, combinations(table, k))

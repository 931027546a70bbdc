"""Ranks and what follows from them, by numbers that are known to lie in intervals."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import get_args

import duckdb
import pytest

from qserver.query.sql.shaping.ranks import Rank, RankKind, ranked
from tests.query.sql.people import read

KINDS: tuple[RankKind, ...] = get_args(RankKind)
N_TILES = 3


def by_duckdb(numbers: list[int], kind: RankKind, *, descending: bool) -> list[float]:
    """What DuckDB gives these numbers; equal ones in the order in which they stand."""
    call = f"{kind}({N_TILES if kind == 'NTILE' else ''})"
    ties = ", i" if kind in ("ROW_NUMBER", "NTILE") else ""
    order = f"n {'DESC' if descending else 'ASC'}{ties}"
    rows = ", ".join(f"({i}, {n})" for i, n in enumerate(numbers))
    text = f"SELECT {call} OVER (ORDER BY {order}) FROM (VALUES {rows}) AS t (i, n) ORDER BY i"
    return [float(one) for (one,) in duckdb.sql(text).fetchall()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("descending", [True, False])
def test_a_rank_of_known_numbers_is_duckdbs(kind: RankKind, *, descending: bool) -> None:
    for numbers in ([5], [3, 3], [4, 1, 3, 1, 4, 9, 9], list(range(8))):
        rank = Rank("r", 0, descending, (0,) * len(numbers), kind, N_TILES)
        exact = [(float(one), float(one)) for one in numbers]
        found = ranked(list(map(float, numbers)), exact, rank)
        expected = by_duckdb(numbers, kind, descending=descending)
        if len(set(numbers)) > 1 or len(numbers) == 1:
            assert [one.estimate for one in found] == expected
        assert all(
            one.low is not None and one.high is not None and one.low <= true <= one.high
            for one, true in zip(found, expected, strict=True)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_of_a_rank_hold_for_all_numbers_in_the_intervals(kind: RankKind) -> None:
    """Every choice of a number from each interval, by brute force."""
    draw = Random(7)
    for _ in range(4):
        lows = [draw.randrange(4) for _ in range(4)]
        ends = [(low, low + draw.randrange(3)) for low in lows]
        rank = Rank("r", 0, True, (0,) * 4, kind, N_TILES)
        found = ranked([1.0] * 4, [(float(a), float(b)) for a, b in ends], rank)
        true = [
            by_duckdb(list(numbers), kind, descending=True)
            for numbers in product(*(range(a, b + 1) for a, b in ends))
        ]
        for i, one in enumerate(found):
            possible = [ranks[i] for ranks in true]
            assert one.low is not None
            assert one.high is not None
            assert one.low <= min(possible)
            assert max(possible) <= one.high


def test_the_least_dense_rank_is_reached_where_numbers_are_whole() -> None:
    """Three numbers above, two of which may be equal, and none of them needs a rank of its own."""
    rank = Rank("r", 0, True, (0,) * 4, "DENSE_RANK")
    ends = [(7.0, 9.0), (8.0, 10.0), (5.0, 6.0), (1.0, 4.0)]
    [*_, last] = ranked([8.0, 9.0, 5.5, 2.0], ends, rank)
    assert (last.low, last.estimate, last.high) == (3.0, 4.0, 4.0)


def test_ranks_that_count_all_rows_say_which_rows_there_are() -> None:
    text = "SELECT region, COUNT(*), {} OVER (ORDER BY COUNT(*) DESC) FROM people GROUP BY region"
    said = {kind: read(text.format(f"{kind}({3 if kind == 'NTILE' else ''})")) for kind in KINDS}
    shown = {kind: "Groups without a record" in " ".join(one.remarks) for kind, one in said.items()}
    assert shown == {kind: kind in ("PERCENT_RANK", "CUME_DIST", "NTILE") for kind in KINDS}
    assert said["NTILE"].ranks[0].n_tiles == N_TILES

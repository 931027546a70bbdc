"""The next table to measure for a number by places in order, and when to stop.

A table is the counts of *below | blocks of values | above*. They are disjoint, so a record loses
what it loses by one of them. The first has blocks of the whole range. Its answers roughly locate
the quantile and the density of records near it, and so choose a sufficient table. That may have few
blocks, since a miss loses nothing: the interval uses all known thresholds. Before a table that
costs many times the spending so far, one in between is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.quantiles.quantile import Bracket, Quantile, Thresholds, crossing

ROUGH = 16.0
"""Rate of the first table times the records. As all numbers here by simulation on ages and hours of
Adult: others nearby cost up to a tenth more or less, by the statement."""
ROUGH_RECORDS = 64.0
"""A first table is for this many times the least number of records, where fewer may be there."""
BLOCKS = 6
"""Most blocks of a table that does not tell the quantile yet."""
_GROWTH = 4.0
"""A table is at most so many times as exact as what is known: that may mislead."""
_RISE = 1.5
"""A table of the whole range is refined at least so many times, as long as it says little."""
_EXTREME_RISE = 2.5
"""A table for an extreme is at most so many times as exact as what is known: each look may err."""
_EXTREME_MOST = 2.5
"""It costs at most so many times a count within the half-width: its own counts then suffice."""
_EXTREME_TABLES = 3.0
"""What all tables for an extreme may cost in all, as a multiple of the first at that half-width."""
_ROUGHLY = 6.0
"""Part of the records that D is then told to: some threshold is surely passed."""
_LEAST_RISE = 1.3
"""A table whose counts are all known about so exactly is measured so many times as exactly."""
_SHORTER = 0.9
"""What is about as exact: half-widths to this part."""
_LEAST_PART = 0.8
"""A table is at least so exact as what is known, as a part of it: a rougher one would tell less."""
_SHIFTS = (-1.59, -0.97, -0.59, -0.28, 0.0, 0.28, 0.59, 0.97, 1.59)
"""Errors of D, in standard deviations, each as likely as the others."""
_PARTS = (0.0, 0.3, 0.6)
"""How far tables reach, in standard deviations of where D passes 0."""
_MOST_BLOCKS = 16
_OVERHEAD = 5.0
"""What all tables may cost in all, as a multiple of the last one for evenly spread records."""

State = Literal["met", "few", "open"]


@dataclass(frozen=True)
class Table:
    """Counts to measure: of the bins between stops, each at this rate.

    Args:
        stops: rising, from 0 to all bins.
        rate: one over the noise of a count.
    """

    stops: tuple[int, ...]
    rate: float


def state_of(
    number: Quantile, known: Thresholds, *, size: float, size_at_most: float, has_record: bool
) -> State:
    """Whether a number needs more measurements.

    Args:
        has_record: whether at least one record is certain.
    """
    if number.is_extreme and not has_record:
        most = known.highs[-1] if number.p == 0.0 else -known.lows[0]
        return "met" if most < number.most_beyond else "open"
    found = known.bracket(number.levels)
    if number.reach[found.start] >= found.stop:
        return "met"
    is_few = size_at_most < number.least and size_at_most - size <= number.least
    return "few" if is_few else "open"


def step_of(n_bins: int) -> int:
    """Bins per block of the first table: a power of two."""
    return 1 << max(0, math.ceil(math.log2(n_bins / BLOCKS)))


def rough_table(number: Quantile, most_records: float) -> Table:
    """The first table."""
    rough = number.law.sharpness_like(ROUGH)
    rate = rough / min(most_records, ROUGH_RECORDS * max(number.least, 1.0))
    return Table(_first_stops(number), rate)


def table_at_most(number: Quantile) -> Table:
    """The largest table of the search, for the quote: for the fewest records, spread evenly.

    For an extreme it has the counts up to a few blocks.
    """
    if number.is_extreme:
        room, times = number.half_width, _EXTREME_TABLES
    else:
        span = float(number.highs[-1] - number.lows[0]) or 1.0
        room = min(number.half_width / span, 0.5) * max(number.least, 1.0)
        times = _OVERHEAD
    law, last = number.law, _rate(number, BLOCKS / 2.0, BLOCKS / 2.0, max(room, 1.0))
    rate = law.sharpness_of(times * law.charge_of_sharpness(last))
    return Table(_first_stops(number), rate)


def _first_stops(number: Quantile) -> tuple[int, ...]:
    return _stops(0, number.n_bins, step_of(number.n_bins), number.n_bins)


def next_table(number: Quantile, known: Thresholds | None, most_records: float) -> Table:
    """The table to measure next; the first one if no threshold is known.

    Args:
        most_records: possible at most.
    """
    first = rough_table(number, most_records)
    if known is None or known.is_whole:
        return first
    room, n = _room(number, known), BLOCKS / 2.0
    now = _rate(number, n, n, room)
    found = known.bracket(number.levels)
    if not number.is_extreme and 2 * found.n_bins > number.n_bins:
        # About a sixth of all values at most: then some threshold is surely passed.
        rise = _ROUGHLY * (1.0 - number.p) * room / max(float(known.highs[-1]), 1.0)
        return Table(first.stops, max(first.rate, min(max(rise, _RISE), _GROWTH) * now))
    best = min(_last_tables(number, known, room), key=lambda one: one.cost).table
    most = _GROWTH * now
    if number.is_extreme:
        most = min(_EXTREME_RISE * now, _EXTREME_MOST * number.unit / max(number.half_width, 0.5))
    if best.rate <= most:
        return Table(best.stops, max(best.rate, now * _LEAST_PART))
    rate = most if number.is_extreme else min(most, math.sqrt(now * best.rate))
    return Table(_zoomed(number, found), rate)


def _zoomed(number: Quantile, found: Bracket) -> tuple[int, ...]:
    """Blocks of the bins that may contain the number."""
    return _stops(found.start, found.stop, step_of(found.n_bins), number.n_bins)


def raised(number: Quantile, table: Table, known: FloatArray) -> Table:
    """The table, at a rate that improves on history.

    Args:
        known: half-widths of its counts by history, infinite if not given.
    """
    longest = float(known.max(initial=0.0))
    if not math.isfinite(longest) or number.unit / table.rate <= longest * _SHORTER:
        return table
    return Table(table.stops, number.unit / longest * _LEAST_RISE if longest else table.rate)


def _room(number: Quantile, known: Thresholds) -> float:
    """Half the length of the interval of D at the threshold nearest to the number."""
    inner = np.array(known.stops[1:-1])
    i = 1 + int(np.abs(inner - crossing(known, number.levels.middle)).argmin())
    return float(known.highs[i] - known.lows[i]) / 2.0


def _rate(number: Quantile, below: float, above: float, room: float) -> float:
    """The rate that gives D, of this number of counts below and above, a half-width of `room`."""
    squares = (1.0 - number.p) ** 2 * below + number.p**2 * above
    if number.is_extreme:
        squares = max(squares, 1.0)
    return number.unit * math.sqrt(squares) / max(room, 0.5)


def _last_tables(number: Quantile, known: Thresholds, room: float) -> Iterator[_Foretold]:
    """Tables that may locate the quantile, with their expected total cost."""
    spread = room * math.sqrt(number.law.variance) / number.unit
    level = number.levels.middle
    middle, low, high = (crossing(known, level + shift * spread) for shift in (0.0, -1.0, 1.0))
    reach = float(number.reach[min(int(middle), number.n_bins - 1)]) - int(middle)
    step = 1
    while step <= max(reach, 1.0):
        seen = set[tuple[int, ...]]()
        for part in _PARTS:
            start = middle + part * (low - middle) - reach / 2.0
            stop = middle + part * (high - middle) + reach / 2.0
            first = max(0, math.floor(start / step) * step)
            last = min(number.n_bins, math.ceil(stop / step) * step)
            stops = _stops(first, last, step, number.n_bins)
            if len(stops) <= _MOST_BLOCKS and stops not in seen:
                seen.add(stops)
                yield _foretold(number, known, stops, spread)
        step *= 2


@dataclass(frozen=True)
class _Foretold:
    """A table, and the expected total loss of a record until one suffices."""

    table: Table
    cost: float


def _foretold(
    number: Quantile, known: Thresholds, stops: tuple[int, ...], spread: float
) -> _Foretold:
    """The rate of least cost, if a failed table is followed by an equally costly one."""
    d = known.at(np.array(stops, dtype=float))
    rates = sorted(_rate_at(number, stops, d + shift * spread) for shift in _SHIFTS)
    costs = [
        number.law.charge_of_sharpness(rate) * len(rates) / (i + 1) for i, rate in enumerate(rates)
    ]
    i = int(np.argmin(costs))
    return _Foretold(Table(stops, rates[i]), costs[i])


def _rate_at(number: Quantile, stops: tuple[int, ...], d: FloatArray) -> float:
    """The rate at which a table locates the quantile, for a given D."""
    at, k = np.array(stops), len(stops) - 1
    # Per first bin the last threshold that an interval as asked reaches.
    last = np.searchsorted(at, number.reach[at[:-1]], side="right") - 1
    level, more = number.levels.middle, number.levels.overlap
    lows = np.where(at[:-1] == 0, math.inf, level + more - d[:-1])
    highs = np.where(at[last] == number.n_bins, math.inf, d[last] - level + more)
    best = float(np.where(last > np.arange(k), np.minimum(lows, highs), 0.0).max())
    middle = min(int(np.searchsorted(d, level)), k)
    return _rate(number, middle, k - middle, best) if best > 0.5 else math.inf


def _stops(start: int, stop: int, step: int, n_bins: int) -> tuple[int, ...]:
    """The stops of a table with such blocks from `start` on."""
    return tuple(sorted({0, *range(start, stop, step), stop, n_bins}))

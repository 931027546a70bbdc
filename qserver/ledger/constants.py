"""The ledger's size limits, each with its unit, its reason and its evidence.

None decides whether the ledger is right. Past a limit an exact figure gives way to an upper bound,
so a question may cost more than it must, and never less. "Not measured" means that no kept
benchmark compared the value with others. An entry of a table takes 8 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class LedgerLimits:
    """Entries of tables, steps of searches, and seconds of the forecast."""

    # Tabulating one loss.
    row_grid: int = 1 << 18
    """Most cells of the grid on which a row, or its pairs of cells, is tabulated; a larger one is
    bounded. 2 MiB. Not measured."""

    row_work: int = 1 << 22
    """Most entries times terms that are computed in Python integers for such a bound. Not
    measured."""

    most_units: int = 1 << 56
    """No sum of losses may reach it, in units of 2^-12 nano-epsilon (17,592 epsilon), so that sums
    in 64 bits cannot overflow. Not tuned."""

    int64_safe: int = 1 << 62
    """Products at or above it are computed in Python integers. Not tuned."""

    most_blocks: int = 16
    """Non-zero entries up to which a loss is added block by block. Not measured."""

    most_runs: int = 2
    """Runs per attribute up to which a block is a slice. Not measured."""

    # The greatest sum, exactly.
    most_dense: int = 1 << 20
    """Most entries of the table of all losses together: 8 MiB. On four streams of 80 questions the
    spend is the same to the last digit with 2^18 to 2^22. With 2^22 plans took up to 30 percent
    longer, and with 2^18 half as long again where records are replaced."""

    most_eliminated: int = 1 << 18
    """Most entries of a table while attributes are eliminated one by one, and of those kept to
    price further rows by: 2 MiB. Not measured."""

    split_group: int = 1 << 14
    """Most entries of a group of tables that must be split anyway. Not measured."""

    most_priced: int = 24
    """Refunds that one price takes in: about 0.1 ms each where the sum is not written down. Not
    measured by a kept benchmark."""

    most_rounds: int = 8
    """Rounds of looking for the refunds of the greatest cell alone. Not measured."""

    # The quick upper bound.
    most_table: int = 1 << 14
    """Most entries that a table may grow to by taking in another one. Not measured."""

    most_single: int = 1 << 20
    """Most entries of the table of one loss: 8 MiB. Not measured."""

    most_stored: int = 1 << 24
    """Entries in all, past which a loss is replaced by its maximum over all but one attribute:
    128 MiB. Not measured."""

    most_tables: int = 4000
    """The same as a number of tables. Not measured."""

    most_shifted: int = 1 << 49
    """An amount above it is not shifted between tables, so that any sum of tables fits 64 bits.
    Not tuned."""

    settle_steps: int = 48
    """Shifts between tables after one row was added. Not measured."""

    settle_rounds: int = 20
    """Rounds of shifts over all tables once they are first needed. Not measured."""

    # The search for the greatest loss.
    proof_looks: int = 1 << 21
    """Entries that branches look at before the search gives up, some 20 to 50 ms. Of 14 ledgers of
    60 to 2,400 charges on 12 to 30 attributes eight pass it. With eight times as many four of these
    cost .5 to 1.3 percent less and four up to 8, and a search takes up to .6 s."""

    proof_beam: int = 32
    """Branches of each axis that the first cell is found by. Not measured."""

    proof_joins: int = 1 << 12
    """Times that tables are tried together before a search. On 1,000 random halves of 50 values on
    20 attributes the tries took 2.6 s of each plan; with this limit .2 s, and the bound is .4
    percent larger. The other 13 ledgers need fewer."""

    proof_group: int = 1 << 12
    """Most entries of tables that are joined to bound branches. With 2^8 a search took up to three
    times as many."""

    proof_entries: int = 1 << 23
    """Most entries in all, apart from those that the ledger holds already: 64 MiB. Not
    measured."""

    # The local search for the greatest loss. Measured with eight times as many looks, four times as
    # many cells and more on 102 sums of 2 to 500 rows, on 2 to 30 attributes: .4 percent more are
    # found in the mean, at most 4.5 over pairs of cells and 2.4 elsewhere.
    most_looks: int = 1 << 16
    """Entries that a round of steps may look at, which sets the number of cells that a search
    begins at."""

    fewer_looks: int = 1 << 14
    """The same where a sum that was searched has one more table."""

    most_cells: int = 256
    """Most cells that a search begins at. Of 60 sums of few rows on 14 attributes 14 lack up to 5.6
    percent with 32, none with 256."""

    least_cells: int = 4
    """Fewest of them. With 1,800 rows 8 find what 512 do."""

    kept_cells: int = 4
    """Cells found that a search with one more table begins at. Not measured alone."""

    most_seen: int = 1 << 22
    """Entries that are looked at together: 32 MiB, and as much for their places. Not measured."""

    # People of several datasets.
    population_nodes: int = 5_000
    """Nodes of a search for the heaviest set of snapshots, per component of their pairs. Random
    graphs of 60 snapshots took at most 1,341, in tens of milliseconds (`tests/ledger`)."""

    population_depth: int = 400
    """Depth of that search; Python allows 1,000 calls within calls. Not tuned."""

    exact_people: int = 60
    """Snapshots with a share up to which the audit takes the figure to be exact. Tested."""

    # The forecast.
    least_window_s: int = 86_400
    """Least time by which the pace of a budget is judged: its first minutes say little. Not
    measured."""

    most_window_s: int = 7 * 86_400
    """Longest time by which it is judged: a week has every day once. Not measured."""


LIMITS = LedgerLimits()

# The search for a claim's bound. None decides whether the bound holds: a smaller one may leave it
# above the least, so that an answer is refused that need not be. All were set by eye on histories
# of 100 to 5,000 rows (tests/benchmarks/studies/campaigns.md).
MOST_CELLS: Final = 128
"""Most classes of cells of a linear program that is not over all of them."""
MOST_ALL: Final = 1_000
"""Most classes of cells for a program over all of them."""
MOST_PAIRS: Final = 12
"""Most pairs of cells that are tried as directions from one cell."""
MOST_PROGRAMS: Final = 4
"""Most programs from one start: each goes on from the cells of the last one's direction."""
MOST_STARTS: Final = 4
"""Most cells that searches begin at."""
MOST_LOOKS: Final = 20_000
"""Most losses of cells that a walk to a cell of small loss looks at."""
MOST_ENTRIES: Final = 100_000
"""Most entries of a program's matrix."""
MOST_STEPS: Final = 2_000
"""Most iterations of the solver."""
MOST_DENOMINATOR: Final = 24
"""Largest denominator of a direction's parts, which are rounded to exact fractions."""
MOST_SCALE: Final = 10_000
"""Most that a direction is scaled by to have whole parts."""
TINY: Final = 1e-9
"""Parts of a direction below this, over the largest, are rounding of floats."""

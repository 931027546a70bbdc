"""Limits of the search for a claim's bound, each with its unit and its reason.

None decides whether a bound holds: a smaller one may leave it above the least, so that an answer is
refused that need not be. All were set by eye on histories of 100 to 5,000 rows (docs/limits.md).
"""

from __future__ import annotations

from typing import Final

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

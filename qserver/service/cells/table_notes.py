"""What is said beside a table: what holds for all its numbers at once, and by which law."""

from __future__ import annotations

import math

from qserver.service.statement_answers import AnsweredCell, StatementAnswer
from qserver.text import LookedNumber, laws_text, looking_text


def said_beside(found: StatementAnswer) -> tuple[str, ...]:
    """A line on looking at all numbers, and one on their law, where there is anything to say."""
    cells = [cell for row in found.cells for cell in row]
    told = [cell.statement for cell in cells if cell.statement is not None]
    laws = laws_text(
        [one.law for one in told],
        error=max((one.error for one in told), default=0.0),
        disagreements=max((one.disagreements for one in told), default=0),
    )
    return tuple(line for line in (looking_text(looked_numbers(found), n=len(cells)), laws) if line)


def looked_numbers(found: StatementAnswer) -> list[LookedNumber]:
    """The lengths of the intervals of all numbers that have some after looking."""
    pairs = (_looked_number(cell) for row in found.cells for cell in row)
    return [one for one in pairs if one is not None]


def _looked_number(cell: AnsweredCell) -> LookedNumber | None:
    estimate, ends, looked = cell.value.estimate, cell.value.interval, cell.after_looking
    if estimate is None or ends.low is None or ends.high is None or looked is None:
        return None
    all_ends = [looked.at_once.low, looked.at_once.high, looked.largest.low, looked.largest.high]
    all_low, all_high, top_low, top_high = (math.nan if end is None else end for end in all_ends)
    lengths = ends.high - ends.low, all_high - all_low
    return LookedNumber(*lengths, (estimate - top_low, top_high - estimate))

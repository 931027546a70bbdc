"""The books: the most that every person may have lost, computed from the journal alone.

An accountant that shares no code with ledger, planner, worker or store: numpy and the standard
library are all that it uses. Begin with `accountant`. `journal_lines` reads the journal,
`cell_functions` has rows and tables, `chains` replays what was drawn, and `losses` finds the
greatest loss. Snapshots that may hold the same person are added up, and it is asked whether the
numbers of an attach are those of its unit. The theorem is in docs/guarantee.md, 7.
"""

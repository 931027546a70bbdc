"""What it has cost: the loss of every cell, exactly, by account and in all.

Begin with `cell_ledger`, the loss of the worst cell after all charges. `composition` adds
charges up, `maximum` finds the greatest entry, `proof` shows that no cell passes a level, and
`upper_bound` serves where a sum is too large to write down.

Doors: `cell_ledger.CellLedger`, unless one account's own spending is meant: then
`account_ledger`. `forecast` draws how spending went on over time.
"""

"""The ledger: the exact loss of every cell, for each account and in total.

Begin with `cell_ledger`: the loss of the worst cell after all charges. `composition` adds up
charges, `maximum` finds the greatest entry, and `branch_and_bound` shows that no cell passes a
level, or bounds sums that are too large to write down.

Which one to call: `cell_ledger.CellLedger` for the spending of a population,
`account_ledger.OwnLedger` for the spending of one account, `forecast` for spending over time.
"""

"""The use cases of the online side: one method for each thing that a user can do.

Begin with `service`. `ask` answers from history or queues a job, `statements` serves SQL, `models`
serves models. What only reads has its own files: `free_answers` says what history knows, `history`
what was released, `ledger` where the budget went.
"""

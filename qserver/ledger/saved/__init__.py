"""How parts of a ledger are kept in a checkpoint."""

"""What accounts keep for themselves; it is no part of what was released, and spends nothing."""

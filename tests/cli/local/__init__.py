"""Programs as their users start and stop them."""

"""Joint laws and quotients."""

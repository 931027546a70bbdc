"""The trusted side."""

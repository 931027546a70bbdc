"""Programs that ask other systems, each in an environment of its own; see `peers.py`."""

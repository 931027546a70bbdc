"""Backups that released versions made: every later version reads them. `python -m tests.kept`."""

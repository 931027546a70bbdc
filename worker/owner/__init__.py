"""What only the owner of the data does: attach, rotate, top up, detach, restore, examine.

One module for each command; `worker.cli` reads their options.
"""

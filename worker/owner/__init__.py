"""The commands of the data's owner: attach, rotate, top up, detach, restore, examine, audit.

`worker.cli` calls the commands. Begin with `attach`.
"""

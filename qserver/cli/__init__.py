"""The commands of `qserver`: one module for each group.

Begin with `main`, which puts the groups together, and `runtime`, what a command gets from
outside and how it ends. The commands that talk to a server stand here; those that work on this
machine's own store stand in `local`; `processes` keeps a server's children running.
"""

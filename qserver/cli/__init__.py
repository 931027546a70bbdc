"""The commands of `qserver`: one module for each group.

Begin with `main`, which puts the groups together. `runtime` has what every command gets, and the
exit codes. The commands here talk to a server through `qserver.client`, by what `remote_commands`
shares among them. The commands in `local` work on this machine's own store.
`processes` keeps a server's child processes running.

A command imports what it calls when it runs: help and wrong usage start at once.
"""

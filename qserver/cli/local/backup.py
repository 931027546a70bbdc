"""`qserver backup` and `qserver restore`: copy the embedded store, and check it by loading it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from shlex import quote

from qserver.cli.runtime import ExitCode, Runtime
from qserver.records.charge import epsilon_text
from qserver.storage.operation.backup import Backup, make_backup, restore_backup


def run_backup(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Make a backup and show its contents."""
    with runtime.console.progress("Copying and checking"):
        backup = make_backup(args.state, args.to.absolute())
    runtime.console.line(f"{args.to} was loaded and holds:")
    _show(backup, runtime)
    runtime.console.line(
        "The worker's folder is not in it. Keep its journals apart from the store and its backups."
    )
    return ExitCode.OK


def run_restore(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Put a backup on a state folder and show the next steps."""
    with runtime.console.progress("Copying and checking"):
        backup = restore_backup(args.source.absolute(), args.state.absolute())
    made = datetime.fromtimestamp(backup.made_at, UTC).isoformat(timespec="seconds")
    runtime.console.line(f"The store of {made} is on {args.state}:")
    _show(backup, runtime)
    runtime.console.line(
        "What was charged and released since is in the worker's journal alone. Start the store, and"
    )
    runtime.console.line("before any worker, on the worker's side, run:")
    runtime.command(f"qserver-worker restore --state {quote(str(args.state))}")
    runtime.console.line("Tokens that were revoked since the backup are valid again: revoke them.")
    return ExitCode.OK


def _show(backup: Backup, runtime: Runtime) -> None:
    for name, facts in backup.populations.items():
        runtime.console.line(
            f"  population {name}: {facts.version:,} reservations, "
            f"{epsilon_text(facts.spent_nano)} of {epsilon_text(facts.limit_nano)} epsilon spent"
        )
    if not backup.populations:
        runtime.console.line("  no population")

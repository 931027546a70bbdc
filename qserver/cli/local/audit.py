"""`qserver audit`: export the audit log of a store, and verify a store or an exported file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qserver.cli.runtime import Commands, ExitCode, Runtime, add_store_options, store_settings
from qserver.errors import ConfigError

if TYPE_CHECKING:
    from qserver.storage.audit_check import AuditExport

_VERIFY = """\
Check the audit log of a store, or of a file that `audit export` wrote: whether every entry follows
the one before it, whether the charges cost what the ledger says, and whether every limit was
logged. `qserver-worker audit-verify` also holds the charges against the worker's journal, which
nobody who can write to the store alone can change, and recomputes what every person has lost.
"""


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `audit` to the command line."""
    audit = commands.add_parser("audit", help="export or check the audit log")
    kinds = audit.add_subparsers(title="commands", metavar="COMMAND", required=True)
    export = kinds.add_parser("export", help="write the log to a file, as JSON lines")
    export.add_argument("file", type=Path, metavar="FILE")
    verify = kinds.add_parser("verify", help="check the log", description=_VERIFY)
    verify.add_argument("file", type=Path, nargs="?", metavar="FILE", help="default: the store")
    verify.add_argument("--json", action="store_true", help="print the findings as JSON")
    for parser, run in ((export, run_export), (verify, run_verify)):
        add_store_options(parser, runtime)
        parser.set_defaults(run=run)


def run_export(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Write the log of a store to a new file."""
    with runtime.console.progress("Reading the log"):
        lines = list(_of_store(args, runtime).to_lines())
    try:
        with args.file.open("x", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    except OSError as exc:
        raise ConfigError("file", f"be new and open to us ({exc.strerror})") from exc
    runtime.console.line(f"Wrote {len(lines):,} entries.")
    return ExitCode.OK


def run_verify(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Check a log and print the findings; fails if one is a fault."""
    from qserver.storage.audit_check import check_export

    with runtime.console.progress("Checking the log"):
        export = _of_store(args, runtime) if args.file is None else _of_file(args.file)
        checks = check_export(export)
    if args.json:
        runtime.console.json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            verdict = "ok" if check.ok else "fault"
            runtime.console.line(f"{verdict:<5}  {check.subject}: {check.text}")
    return ExitCode.OK if all(check.ok for check in checks) else ExitCode.FAILURE


def _of_store(args: argparse.Namespace, runtime: Runtime) -> AuditExport:
    from qserver.storage.audit_check import AuditExport
    from qserver.storage.store import Store

    return AuditExport.read(Store.open(store_settings(args, runtime), role="owner").audit)


def _of_file(path: Path) -> AuditExport:
    from qserver.storage.audit_check import AuditExport

    return AuditExport.of_file(path)

"""`qserver-worker domain`: what its three commands print."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from qserver.errors import ConfigError
from qserver.query.files.keys import domain_schema
from worker.owner.domains.draft import check_command, draft
from worker.owner.domains.fitting import Report, check
from worker.sources.address import Address, address_of


def run(
    arguments: argparse.Namespace, *, show: Callable[[str], None], say: Callable[[str], None]
) -> int:
    """Run one of the commands; its exit code.

    Args:
        show: told the outcome.
        say: told what is not part of it.
    """
    text, code = _outcome(arguments, say)
    show(text)
    return code


def _outcome(arguments: argparse.Namespace, say: Callable[[str], None]) -> tuple[str, int]:
    if arguments.action == "schema":
        return json.dumps(domain_schema(), indent=2), 0
    address = address_of(arguments) if arguments.source or arguments.data else None
    # A domain is drafted before there is a worker's folder.
    folder = Path(tempfile.gettempdir())
    if arguments.action == "init" and address is not None:
        return _init(arguments, address, folder, say), 0
    report = check(arguments.file, address, folder=folder)
    code = 1 if report.faults else 0
    if arguments.json:
        faults = [asdict(fault) for fault in report.faults]
        return json.dumps({"faults": faults, "notes": list(report.notes)}), code
    return "\n".join(_lines(report, arguments.file.name)), code


def _init(
    arguments: argparse.Namespace, address: Address, folder: Path, say: Callable[[str], None]
) -> str:
    out: Path | None = arguments.out
    if out is not None and out.suffix != ".toml":
        raise ConfigError("o", "end in .toml: a draft has comments", out.name)
    if out is not None and out.exists():
        raise ConfigError("o", "be a new file", str(out))
    if arguments.show_values:
        say(
            "warning: the draft shows values of the data in its comments, to whoever reads it. "
            "Nothing is sent anywhere; what you take over becomes public at attach."
        )
    text = draft(address, folder=folder, shows_values=arguments.show_values, out=out)
    if out is None:
        return text.rstrip("\n")
    mode = 0o600 if arguments.show_values else 0o644
    with os.fdopen(
        os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
    ) as f:
        f.write(text)
    n = text.count("[[attributes]]")
    return f"Wrote {out}: {n} attributes. Fill it in, then: {check_command(out, address)}"


def _lines(report: Report, name: str) -> list[str]:
    found = []
    for fault in report.faults:
        found += [f"{name}:{fault.line}: {fault.text}", f"    {fault.source}"]
    found += [f"note: {note}" for note in report.notes]
    domain = report.checked.domain
    if domain is None or report.faults:
        n = len(report.faults)
        found.append(f"{n} {'fault' if n == 1 else 'faults'}. Attach would refuse this file.")
    else:
        n_levels = len(domain.level_names)
        levels = f", {n_levels} level{'s' * (n_levels > 1)}" if n_levels else ""
        found.append(
            f"ok: {len(domain.attributes)} attributes{levels}, {domain.n_cells:,} cells"
            + ("" if report.n_columns is None else f"; all found among {report.n_columns} columns")
        )
    return found

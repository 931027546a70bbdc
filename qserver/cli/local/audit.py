"""`qserver audit` exports and verifies the audit log; `qserver audit-structure` needs no store.

The first is of a store or an exported file. The other bounds the leaks of a network before it is
learnt.
"""

from __future__ import annotations

import argparse
import gzip
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qserver.cli.conditions import parse_json
from qserver.cli.console import Console
from qserver.cli.models import gate_text, show_complexity
from qserver.cli.plot import check_svg_path, write_svg
from qserver.cli.remote_commands import add_fields
from qserver.cli.runtime import Commands, ExitCode, Runtime, add_store_options, store_settings
from qserver.errors import ConfigError
from qserver.query import request_fields as fields

if TYPE_CHECKING:
    from qserver.models.network.structure import Structure
    from qserver.models.tracing.report import AuditRequest, TracingReport
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
        raise ConfigError("file", f"be new and writable ({exc.strerror})") from exc
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


_DESCRIPTION = """\
Bound how well anyone could tell whose records a network was learnt from: by its structure, the
number of records and epsilon alone. Reads no data and asks no server. With --max-power the exit
code is 3 where more members could be found, at --fpr false positives, than that.
"""
_MAX_BYTES = 1 << 22
_MOST_EFFECTS = 8


def register_structure(commands: Commands, _runtime: Runtime) -> None:
    """Add `audit-structure` to the command line."""
    parser = commands.add_parser(
        "audit-structure",
        help="bound what a network could leak, before it is learnt",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "network",
        type=Path,
        metavar="FILE",
        help='BIF (also .gz); or with --domain JSON: {"edges": [[parent, child], ...]}',
    )
    parser.add_argument("--domain", type=Path, metavar="FILE", help="domain file of the dataset")
    add_fields(parser, *fields.LEAK, fields.REFERENCE, fields.FPR, fields.BASIS)
    add_fields(parser, fields.MAX_POWER, may_lack=True)
    parser.add_argument("--neighbours", choices=("add-remove", "replace-one"), default="add-remove")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the curves")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Print the report of a structure; the exit code tells whether the gate refuses."""
    from qserver.models.tracing.report import structural_report

    if args.plot is not None:
        check_svg_path(args.plot)
    with runtime.console.progress("Bounding what the structure tells"):
        report = structural_report(_request(args, _structure(args)))
    if args.plot is not None:
        from qserver.answering.plots.chart import svg_of
        from qserver.answering.plots.figures import tracing_chart

        write_svg(args.plot, svg_of(tracing_chart(report)))
    if args.json:
        runtime.console.json(report.to_document())
    else:
        _show(runtime.console, report)
    refused = report.decision is not None and not report.decision.passes
    return ExitCode.REFUSED if refused else ExitCode.OK


def _request(args: argparse.Namespace, structure: Structure) -> AuditRequest:
    from qserver.models.tracing.bound import PrivacyCap, ReleaseGate
    from qserver.models.tracing.report import AuditRequest

    cap = None if args.epsilon is None else PrivacyCap(args.epsilon, args.neighbours, args.game)
    gate = None if args.max_power is None else ReleaseGate(args.fpr, args.max_power, args.basis)
    return AuditRequest(
        structure,
        args.records,
        release=args.release,
        cap=cap,
        n_reference=math.inf if args.reference_records is None else args.reference_records,
        gate=gate,
    )


def _structure(args: argparse.Namespace) -> Structure:
    from qserver.models.network.bif import read_bif, structure_of_document
    from qserver.query.domain_loading import load_domain

    text = _text(args.network)
    if args.domain is None:
        return read_bif(text).structure
    document: Any = text
    if text.lstrip().startswith("{"):
        document = parse_json(text, name="network")
    return structure_of_document(document, load_domain(args.domain))


def _text(path: Path) -> str:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            text = str(file.read(_MAX_BYTES + 1))
    except (OSError, EOFError, UnicodeDecodeError) as exc:
        raise ConfigError("network", f"be a readable file ({type(exc).__name__})") from exc
    if len(text) > _MAX_BYTES:
        raise ConfigError("network", f"be at most {_MAX_BYTES >> 20} MiB")
    return text


def _show(console: Console, report: TracingReport) -> None:
    document = report.to_document()
    areas, cap = report.areas, report.request.cap
    console.line(f"network: {document['variables']} variables, {document['edges']} edges")
    show_complexity(console, document)
    console.line(f"release: {report.request.release}, learnt from {report.request.n:,.0f} records")
    console.line()
    rows = [("structural bound", areas.bound)]
    if areas.finite_bound is not None:
        rows.append(("bound with the reference set", areas.finite_bound))
    if cap is not None and areas.cap is not None:
        rows.append((f"cap of epsilon {cap.epsilon:g}", areas.cap))
    rows.append(("the lesser, at every error", areas.limit))
    console.table(
        ("area under the curve (0.5 is guessing)", ""), [(n, f"{a:.4f}") for n, a in rows]
    )
    console.line()
    _show_effects(console, report)
    if report.decision is not None:
        console.line()
        console.line(gate_text(passes=report.decision.passes, reason=report.decision.reason))


def _show_effects(console: Console, report: TracingReport) -> None:
    most = sorted(report.effects, key=lambda effect: -effect.auc)[:_MOST_EFFECTS]
    names = [
        e.part.name if e.part.parent is None else f"{e.part.parent} -> {e.part.name}" for e in most
    ]
    rows = [
        (name, f"{e.complexity:,}", f"{e.auc:.4f}") for name, e in zip(names, most, strict=True)
    ]
    console.table(("what adds most to the model", "numbers", "area"), rows)

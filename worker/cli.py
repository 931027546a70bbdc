"""The worker's command line: every command of the trusted side, and its only door."""

from __future__ import annotations

import os

# Before numpy loads: several BLAS threads cost more than they give on small matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import qserver
from qserver.config import Settings
from qserver.errors import ConfigError, QServerError
from qserver.log import formatter_of
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document, load_domain
from qserver.records.charge import epsilon_text
from qserver.records.dataset import DatasetMeta
from qserver.records.paid_question import DEFAULT_PHI
from worker.main_loop import run
from worker.owner.attach import AttachRequest, attach, parse_limit
from worker.owner.declare import declare_disjoint
from worker.owner.detach import detach
from worker.owner.doctor import examine
from worker.owner.restore import restore
from worker.owner.rotate import RotateRequest, rotate
from worker.owner.top_up import top_up
from worker.private.read import infer_domain_document
from worker.private.registry import Registry

_INFER_HELP = """make the domain from the private file itself. This REVEALS DATA: every distinct
value of every column becomes public, with no noise and outside the ledger. Use it for data whose
values are public anyway."""
_REDIS_HELP = """address of the store (default: QSERVER_REDIS_URL, or else whatever
`qserver serve --state` or the demo runs on the state folder)"""
_STATE_HELP = """folder of the worker's private files, and of the embedded store where that is used
(QSERVER_STATE_DIR)"""
_RESTORE_HELP = "bring a restored store up to the journals, before anything is drawn"
_DECLARE_HELP = "declare that two attached datasets have no person in common"
_AUDIT_HELP = "attack a network with its own members, into a file for you alone"
_PHI_HELP = """\
what may be spent on rows as asked before tables are bought that answer later questions too, as a
part of the tables' price (default %(default)g): 0.25 for data that will be asked for years, 1 or
more where few questions are expected
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 on failure, 2 on wrong usage."""
    arguments = build_parser().parse_args(argv)
    try:
        settings = Settings.from_environment(
            redis_url=arguments.redis_url, state_dir=arguments.state
        )
        return int(arguments.run(arguments, settings))
    except QServerError as exc:
        _say(f"{exc.code}: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130


def _attach(arguments: argparse.Namespace, settings: Settings) -> int:
    request = AttachRequest(
        name=arguments.name,
        data=arguments.data,
        domain=_domain(arguments),
        limit=parse_limit(arguments.limit),
        relation=arguments.neighbours,
        population=arguments.population or arguments.name,
        records_per_person=arguments.records_per_person,
        phi=arguments.phi,
        person_column=arguments.person_id,
        disclosure_cap=arguments.disclosure_cap,
        disjoint_from=tuple(arguments.disjoint_from),
    )
    meta = attach(request, settings=settings, registry=Registry(settings.state_dir), progress=_say)
    words = (
        f"Attached {meta.name} (population {meta.population}, snapshot {meta.snapshot}): "
        f"{len(meta.domain.attributes)} attributes, {meta.domain.n_cells:,} cells, "
        f"{meta.relation}, limit {arguments.limit} epsilon."
    )
    _show(
        arguments, meta.to_json(), "\n".join([words, *_guarantee_lines(meta, request.limit_nano)])
    )
    return 0


def _guarantee_lines(meta: DatasetMeta, limit_nano: int) -> list[str]:
    """The parts of the guarantee: enforced by attach, or declared by the owner."""
    how = "enforced" if meta.records_verified else "as declared; not verified"
    lines = [f"Records per person: {meta.records_per_person}, {how}."]
    if meta.guard_nano is not None:
        lines.append(
            f"Disclosure guard: a cell may lose {epsilon_text(meta.guard_nano)} epsilon, so that "
            f"its count is known with probability {meta.disclosure_cap} at most."
        )
        if meta.guard_nano >= limit_nano:
            lines.append("It cannot bind: the limit is reached first.")
    lines += _declared(meta)
    return lines


def _declared(meta: DatasetMeta) -> list[str]:
    """What the owner declared, repeated where it is used."""
    n = len(meta.disjoint_from)
    if not n:
        return []
    files = "the earlier file" if n == 1 else f"any of the {n} earlier files"
    return [f"You declared that nobody in this file is in {files}; else a person can lose twice."]


def _declare(arguments: argparse.Namespace, settings: Settings) -> int:
    one, other, registry = arguments.dataset, arguments.other, Registry(settings.state_dir)
    done = declare_disjoint(arguments.population, one, other, settings=settings, registry=registry)
    words = (
        f"You declared that nobody in a file that {one} has or had is in another file that {other} "
        f"has or had: {done.n_pairs} pairs of files, {done.n_new} of them new."
    )
    _show(arguments, json.dumps(asdict(done)), words)
    return 0


def _domain(arguments: argparse.Namespace) -> Domain:
    if arguments.infer_domain == (arguments.domain is not None):
        raise ConfigError("domain", "be given, or else the flag --infer-domain")
    if arguments.domain is not None:
        return load_domain(arguments.domain)
    _say("warning: --infer-domain makes every distinct value of every column public")
    document = infer_domain_document(arguments.data, without=arguments.person_id)
    return domain_from_document(document)


def _run(_arguments: argparse.Namespace, settings: Settings) -> int:
    registry = Registry(settings.state_dir)
    return run(settings, registry=registry, log=_log(registry, settings), say=_say)


def _restore(arguments: argparse.Namespace, settings: Settings) -> int:
    registry = Registry(settings.state_dir)
    complete = restore(
        settings,
        registry=registry,
        accept_loss=arguments.accept_loss,
        log=_log(registry, settings),
        say=_print,
    )
    return 0 if complete else 1


def _doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    findings = examine(Registry(settings.state_dir), settings)
    lines = [f"{'ok  ' if f.ok else 'FAIL'} {f.check}: {f.text}" for f in findings]
    _show(arguments, json.dumps([asdict(finding) for finding in findings]), "\n".join(lines))
    return 0 if all(f.ok for f in findings) else 1


def _detach(arguments: argparse.Namespace, settings: Settings) -> int:
    registry = Registry(settings.state_dir)
    detach(arguments.name, settings=settings, registry=registry, log=_log(registry, settings))
    sys.stdout.write(f"Detached {arguments.name}. What was spent stays spent.\n")
    return 0


def _rotate(arguments: argparse.Namespace, settings: Settings) -> int:
    registry = Registry(settings.state_dir)
    request = RotateRequest(arguments.name, arguments.data, arguments.disjoint_people)
    meta = rotate(
        request, settings=settings, registry=registry, progress=_say, log=_log(registry, settings)
    )
    spent = "does not count for them" if request.disjoint_people else "counts for its people"
    words = (
        f"{meta.name} has snapshot {meta.snapshot} now. The earlier history stays readable; "
        f"what was spent on it {spent}.\nWorkers that run read the new file by themselves."
    )
    _show(arguments, meta.to_json(), "\n".join([words, *_declared(meta)]))
    return 0


def _top_up(arguments: argparse.Namespace, settings: Settings) -> int:
    done = top_up(
        arguments.population,
        parse_limit(arguments.to),
        settings=settings,
        registry=Registry(settings.state_dir),
    )
    before, after = epsilon_text(done.before_nano), epsilon_text(done.after_nano)
    words = f"The limit of {done.population} was {before} and is {after} epsilon."
    _show(arguments, json.dumps({"population": done.population, "limit": after}), words)
    return 0


def _audit_model(arguments: argparse.Namespace, settings: Settings) -> int:
    # The models load only here: a worker that answers questions does not need them.
    from qserver.storage.store import Store
    from worker.owner.model_audit import TracingRequest, audit_model

    reader = None
    if arguments.model_id is not None:
        reader = Store.open(settings, role="worker-reader")
    request = TracingRequest(
        name=arguments.name,
        model=arguments.model if arguments.model_id is None else arguments.model_id,
        reference=arguments.reference,
        out=arguments.out,
        plot=arguments.plot,
        epsilon=arguments.epsilon,
        relation=arguments.neighbours,
    )
    audit_model(request, registry=Registry(settings.state_dir), reader=reader)
    written = [str(p) for p in (request.out, request.plot) if p is not None]
    words = f"Wrote {' and '.join(written)}. PRIVATE: it tells of single people."
    _show(arguments, json.dumps({"private_files": written}), words)
    return 0


def _log(registry: Registry, settings: Settings) -> logging.Logger:
    """The worker's log: a private file, never the terminal, never the store."""
    log = logging.getLogger("qserver.worker")
    log.setLevel(logging.INFO)
    log.propagate = False
    os.close(os.open(registry.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    handler = logging.FileHandler(registry.log_path, encoding="utf-8")
    handler.setFormatter(formatter_of(settings.log_format))
    for old in log.handlers:
        old.close()
    log.handlers = [handler]
    return log


def _show(arguments: argparse.Namespace, document: str, words: str) -> None:
    """Print the outcome of a command: JSON if the caller asked for it, else words."""
    sys.stdout.write((document if arguments.json else words) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="qserver-worker",
        description="The trusted side of qserver: the only program that sees private rows.",
        epilog="Exit codes: 0 success, 1 failure (the message says why), 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=qserver.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--redis-url", help=_REDIS_HELP)
    common.add_argument("--state", type=Path, help=_STATE_HELP)
    common.add_argument("--json", action="store_true", help="print JSON")
    _add_attach(commands.add_parser("attach", parents=[common], help="attach a dataset"))
    work = commands.add_parser("run", parents=[common], help="answer questions until stopped")
    work.set_defaults(run=_run)
    doctor = commands.add_parser("doctor", parents=[common], help="check data, journal and store")
    doctor.set_defaults(run=_doctor)
    _add_restore(commands.add_parser("restore", parents=[common], help=_RESTORE_HELP))
    gone = commands.add_parser("detach", parents=[common], help="take a dataset off the list")
    gone.add_argument("name", help="the dataset's name")
    gone.set_defaults(run=_detach)
    _add_rotate(commands.add_parser("rotate", parents=[common], help="replace a dataset's data"))
    _add_audit_model(commands.add_parser("audit-model", parents=[common], help=_AUDIT_HELP))
    more = commands.add_parser("top-up", parents=[common], help="raise a population's limit")
    more.add_argument("population", help="the people who own the limit")
    more.add_argument("--to", required=True, metavar="EPSILON", help="the new limit, for ever")
    more.set_defaults(run=_top_up)
    _add_declare(commands.add_parser("declare-disjoint", parents=[common], help=_DECLARE_HELP))
    return parser


def _add_audit_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the dataset's name; its records are the members")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", type=Path, metavar="FILE", help="the network, a BIF file")
    model.add_argument("--model-id", metavar="ID", help="or a network that was learnt here")
    parser.add_argument(
        "--reference",
        type=Path,
        required=True,
        help="records of people who are not in the dataset, with the same columns",
    )
    parser.add_argument("--out", type=Path, required=True, help="the report, a new private file")
    parser.add_argument("--plot", type=Path, help="the same as SVG, a new private file")
    parser.add_argument("--epsilon", type=float, help="what the model cost")
    parser.add_argument("--neighbours", choices=("add-remove", "replace-one"), default="add-remove")
    parser.set_defaults(run=_audit_model)


def _add_rotate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="the dataset's name")
    parser.add_argument("--data", type=Path, required=True, help="the new file; same columns")
    parser.add_argument(
        "--disjoint-people",
        action="store_true",
        help="declare that nobody in the new file is in any file that the dataset has or had; "
        "otherwise what was spent on those counts for everybody in the new file too",
    )
    parser.set_defaults(run=_rotate)


def _add_declare(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Declare that nobody in a file that DATASET has or had is in another file that "
        "OTHER has or had. If both names are the same, nobody is in two of its files. What was "
        "spent on such files then no longer adds up. A wrong word lets a person lose more than "
        "the limit, and it cannot be taken back."
    )
    parser.add_argument("population")
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("other", metavar="OTHER")
    parser.set_defaults(run=_declare)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-loss",
        action="append",
        default=[],
        metavar="POPULATION",
        help="its journal is lost: begin another one, on your word that the store forgot nothing",
    )
    parser.set_defaults(run=_restore)


def _add_attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="public name of the dataset")
    parser.add_argument("--data", type=Path, required=True, help=".csv, .tsv (also .gz), .parquet")
    parser.add_argument("--domain", type=Path, help="domain file, .json or .toml")
    parser.add_argument("--infer-domain", action="store_true", help=_INFER_HELP)
    parser.add_argument(
        "--limit", required=True, help="the population's epsilon; only `top-up` raises it"
    )
    parser.add_argument(
        "--neighbours",
        choices=("add-remove", "replace-one"),
        default="add-remove",
        help="what the guarantee compares: one record more or less, or one replaced",
    )
    parser.add_argument(
        "--population",
        help="the people behind the data (default: the dataset's name); datasets about the same "
        "people must share it, so that they share the limit",
    )
    parser.add_argument(
        "--records-per-person",
        type=int,
        default=1,
        help="most records one person owns (default 1); your declaration without --person-id",
    )
    parser.add_argument(
        "--person-id",
        default="",
        metavar="COLUMN",
        help="column that tells whose record it is: of each person at most --records-per-person "
        "records are kept, chosen by a secret key; records without a person are dropped",
    )
    parser.add_argument(
        "--disclosure-cap",
        type=float,
        metavar="P",
        help="refuse answers after which a cell's count could be known with a probability above P",
    )
    parser.add_argument(
        "--disjoint-from",
        action="append",
        default=[],
        metavar="DATASET",
        help="declare that nobody in this file is in any file that DATASET has or had; may be "
        "given several times. It says nothing of other datasets: if those hold the same people, "
        "what is spent on both adds up",
    )
    parser.add_argument("--phi", type=float, default=DEFAULT_PHI, help=_PHI_HELP)
    parser.set_defaults(run=_attach)

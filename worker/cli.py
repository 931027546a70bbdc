"""The worker's command line: every command of the trusted side, and its only door.

A command imports what it calls when it runs: help and wrong usage start at once, and no command
loads the numerics, engines and readers of another.
"""

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
from contextlib import nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qserver import telemetry
from qserver.config import Settings
from qserver.errors import ConfigError, QServerError
from qserver.program import completion_script, formatter_of, loading, telling_if_long
from worker.owner.arrivals.findings import StrictError
from worker.parser import build_parser
from worker.sources.address import address_of

if TYPE_CHECKING:
    from qserver.query.domain import Domain
    from worker.journal.witness import WitnessSettings
    from worker.private.registry import Registry

T = TypeVar("T")

_SILENT = {
    "audit-model": "attacking the model",
    "audit-verify": "adding up what everybody lost",
    "backup": "copying",
    "doctor": "checking",
    "restore": "putting back and checking",
}
"""What commands do that say nothing meanwhile, if they take long."""
STRICT = 3
"""Exit code of an append that --strict stopped."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the parser's help lists the exit codes."""
    arguments = build_parser().parse_args(argv)
    try:
        settings = Settings.from_environment(
            redis_url=arguments.redis_url,
            state_dir=arguments.state,
            witness=arguments.witness,
        )
        silent = _SILENT.get(arguments.command)
        with telling_if_long(silent, sys.stderr) if silent else nullcontext():
            return _COMMANDS[arguments.command](arguments, settings)
    except QServerError as exc:
        _say(f"{exc.code}: {exc}")
        return STRICT if isinstance(exc, StrictError) else 1
    except KeyboardInterrupt:
        return 130


def _asked(kind: type[T], arguments: argparse.Namespace, **more: object) -> T:
    """A command's request: its fields are options of the same name, unless they are given here."""
    made: Any = kind
    given = vars(arguments)
    names = [item.name for item in fields(made) if item.name in given]
    found: T = made(**{name: given[name] for name in names} | more)
    return found


def _frame(settings: Settings) -> dict[str, Any]:
    """What commands that change an attached dataset have in common."""
    registry = _registry(settings)
    log = _log(registry, settings)
    return {"settings": settings, "registry": registry, "progress": _say, "log": log}


def _attach(arguments: argparse.Namespace, settings: Settings) -> int:
    with loading():
        from qserver.query.requirement import measure_of
        from qserver.records.people import Words
        from worker.owner.attach import AttachRequest, attach, guarantee_lines
        from worker.owner.checks.population import parse_delta, parse_limit
        from worker.owner.claims import load_claims
        from worker.private.spark_place import place_of

    registry = _registry(settings)
    domain = _domain(arguments, registry)
    people = Words(
        protects=arguments.unit,
        records_per_person=arguments.records_per_person,
        records_per_period=arguments.records_per_period,
        replaced=arguments.replaced,
        enforced=bool(arguments.person_id),
    ).declared(domain, arguments.neighbours)
    request = _asked(
        AttachRequest,
        arguments,
        data=address_of(arguments),
        domain=domain,
        limit=parse_limit(arguments.limit),
        delta=parse_delta(arguments.delta),
        relation=arguments.neighbours,
        population=arguments.population or arguments.name,
        records_per_person=people.records_per_person,
        unit=people.unit,
        person_column=arguments.person_id,
        disjoint_from=tuple(arguments.disjoint_from),
        measure=measure_of(arguments.measure),
        claims=load_claims(arguments.claims),
        place=place_of(arguments.codes, arguments.slot),
    )
    meta = attach(request, settings=settings, registry=registry, progress=_say)
    words = (
        f"Attached {meta.name} (population {meta.population}, snapshot {meta.snapshot}): "
        f"{len(meta.domain.attributes)} attributes, {meta.domain.n_cells:,} cells, "
        f"{meta.relation}, limit {arguments.limit} epsilon."
    )
    _show(arguments, meta.to_json(), "\n".join([words, *guarantee_lines(meta, request.limit_nano)]))
    return 0


def _append(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.arrivals.append import AppendRequest, append

    data = address_of(arguments) if arguments.data or arguments.source else None
    done = append(_asked(AppendRequest, arguments, data=data), **_frame(settings))
    what = done.first if done.first == done.last else f"{done.first} to {done.last}"
    words = f"{done.dataset}: {what} {'was sealed before' if done.again else 'is sealed'}."
    _show(arguments, json.dumps(asdict(done)), words)
    return 0


def _retire(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.arrivals.append import RetireRequest, retire

    done = retire(_asked(RetireRequest, arguments), **_frame(settings))
    how = "were erased before" if done.again else "are erased"
    words = [
        f"{done.dataset}: the records of the periods before {done.first_kept} {how}. Answers about "
        "them stay; nothing more is measured."
    ]
    if done.keeps_people:
        words.append(
            "How many records each person had in them stays, under keyed digests: the bound on the "
            "records of one person in all needs it."
        )
    _show(arguments, json.dumps(asdict(done)), "\n".join(words))
    return 0


def _declare(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.changes import declare_disjoint

    one, other, registry = arguments.dataset, arguments.other, _registry(settings)
    done = declare_disjoint(arguments.population, one, other, settings=settings, registry=registry)
    words = (
        f"You declared that nobody in a file that {one} has or had is in another file that {other} "
        f"has or had: {done.n_pairs} pairs of files, {done.n_new} of them new."
    )
    _show(arguments, json.dumps(asdict(done)), words)
    return 0


def _completion(arguments: argparse.Namespace, _settings: Settings) -> int:
    sys.stdout.write(completion_script(build_parser(), arguments.shell))
    return 0


def _domain_file(arguments: argparse.Namespace, _settings: Settings) -> int:
    from worker.owner.domains.draft import run as run_domain

    return run_domain(arguments, show=_print, say=_say)


def _domain(arguments: argparse.Namespace, registry: Registry) -> Domain:
    from qserver.query.files.faults import load_new_domain
    from worker.owner.domains.draft import domain_of_columns, infer_domain_document

    if arguments.infer_domain == (arguments.domain is not None):
        raise ConfigError("domain", "be given, or else the flag --infer-domain")
    if arguments.domain is not None:
        return load_new_domain(arguments.domain)
    _say("warning: --infer-domain makes every distinct value of every column public")
    source = address_of(arguments)
    found = infer_domain_document(source, folder=registry.seals, without=arguments.person_id)
    return domain_of_columns(found)


def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    with loading():
        from worker.main_loop import run

    registry = _registry(settings)
    if complaint := telemetry.start(os.environ, name="qserver-worker"):
        _say(complaint)
    log = _log(registry, settings)
    return run(settings, registry=registry, log=log, say=_say, waits=arguments.wait)


def _backup(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.backups import back_up, kept_lines

    note = back_up(
        arguments.file.absolute(),
        settings=settings,
        registry=_registry(settings),
        with_data=not arguments.without_data,
        say=_say,
    )
    words = [f"{arguments.file} is PRIVATE and has:", *kept_lines(note)]
    _show(arguments, json.dumps(asdict(note)), "\n".join(words))
    return 0


def _restore(arguments: argparse.Namespace, settings: Settings) -> int:
    if arguments.file is not None:
        return _put_back(arguments, settings)
    from worker.owner.restore import restore

    registry = _registry(settings)
    complete = restore(
        settings,
        registry=registry,
        accept_loss=arguments.accept_loss,
        log=_log(registry, settings),
        say=_print,
    )
    return 0 if complete else 1


def _put_back(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.backups import PutBack, put_back

    if settings.redis_url or arguments.accept_loss:
        raise ConfigError("file", "be given without --redis-url and --accept-loss")
    done = put_back(
        PutBack(arguments.file, arguments.journals, arguments.nothing_since),
        settings=settings,
        witness=_witnesses(settings),
        log=logging.getLogger("qserver.worker"),
        say=_print,
    )
    return 0 if done else 1


def _doctor(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.checks.audit import examine

    findings = examine(_registry(settings), settings)
    lines = [f"{'ok  ' if f.ok else 'FAIL'} {f.check}: {f.text}" for f in findings]
    _show(arguments, json.dumps([asdict(finding) for finding in findings]), "\n".join(lines))
    return 0 if all(f.ok for f in findings) else 1


def _detach(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.changes import detach

    held = _registry(settings)
    detach(arguments.name, settings=settings, registry=held, log=_log(held, settings), say=_say)
    sys.stdout.write(f"Detached {arguments.name}. What was spent stays spent.\n")
    return 0


def _rotate(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.attach import declared_lines
    from worker.owner.rotate import RotateRequest, rotate

    request = _asked(RotateRequest, arguments, data=address_of(arguments))
    meta = rotate(request, **_frame(settings))
    spent = "does not count for them" if request.disjoint_people else "counts for its people"
    words = (
        f"{meta.name} has snapshot {meta.snapshot} now. The earlier history stays readable; "
        f"what was spent on it {spent}.\nWorkers that run go on with the new data by themselves."
    )
    _show(arguments, meta.to_json(), "\n".join([words, *declared_lines(meta)]))
    return 0


def _top_up(arguments: argparse.Namespace, settings: Settings) -> int:
    from qserver.records.charge import epsilon_text
    from worker.owner.changes import top_up
    from worker.owner.checks.population import parse_limit

    limit, registry = parse_limit(arguments.to), _registry(settings)
    done = top_up(arguments.population, limit, settings=settings, registry=registry)
    before, after = epsilon_text(done.before_nano), epsilon_text(done.after_nano)
    words = f"The limit of {done.population} was {before} and is {after} epsilon."
    _show(arguments, json.dumps({"population": done.population, "limit": after}), words)
    return 0


def _measure(arguments: argparse.Namespace, settings: Settings) -> int:
    from qserver.query.requirement import measure_of
    from worker.owner.changes import set_measure

    chosen = measure_of(arguments.measure)
    done = set_measure(arguments.name, chosen, settings=settings, registry=_registry(settings))
    words = f"Questions on {done.dataset} that do not say measured {done.before}, and now measure "
    _show(arguments, json.dumps(asdict(done)), f"{words}{done.after}.")
    return 0


def _expect(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.changes import set_expected

    registry = _registry(settings)
    done = set_expected(arguments.name, arguments.number, settings=settings, registry=registry)
    was = f"; it was {done.before:,}" if done.before else ""
    words = f"About {done.after:,} questions are expected on {done.dataset}{was}."
    if not done.after:
        words = f"Nothing is said any more of how many questions are expected on {done.dataset}."
    _show(arguments, json.dumps(asdict(done)), words)
    return 0


def _claims(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.claims import claims_of, known_lines, load_claims, set_claims

    if arguments.set is None:
        now = claims_of(arguments.name, settings=settings)
    else:
        claims = load_claims(arguments.set)
        now = set_claims(arguments.name, claims, settings=settings, registry=_registry(settings))
    _show(arguments, json.dumps(asdict(now)), "\n".join(known_lines(now)))
    return 0


def _witness(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.witness import see_to_witnesses

    found = see_to_witnesses(_registry(settings), accept=arguments.accept)
    lines = [f"{'ok  ' if f.ok else 'FAIL'} witness of {f.population}: {f.text}" for f in found]
    _show(arguments, json.dumps([asdict(f) for f in found]), "\n".join(lines))
    return 0 if all(f.ok for f in found) else 1


def _requests(arguments: argparse.Namespace, settings: Settings) -> int:
    from qserver.storage.wishes import Wishes

    found = Wishes.open(settings, role="worker").all("qserver-worker")
    lines = [f"{one.digest}  {one.words}\n  {one.line}" for one in found] or ["none waits"]
    plain = [{"id": one.digest, "command": one.line, "by": one.by, "at": one.at} for one in found]
    _show(arguments, json.dumps(plain), "\n".join(lines))
    return 0


def _confirm(arguments: argparse.Namespace, settings: Settings) -> int:
    from qserver.storage.wishes import Wishes

    wishes = Wishes.open(settings, role="worker")
    wish = wishes.one(arguments.digest, "qserver-worker")
    if not arguments.drop:
        _say(f"{wish.words}\n  {wish.line}\nType yes to run it:")
        if sys.stdin.readline().strip() != "yes":
            _say("Nothing was done.")
            return 1
        here = [("--redis-url", arguments.redis_url), ("--state", arguments.state)]
        here.append(("--witness", arguments.witness))
        places = [f"{option}={value}" for option, value in here if value is not None]
        code = main([*wish.argv, *places, *(["--json"] if arguments.json else [])])
        if code:
            return code
    wishes.drop(wish.digest)
    return 0


def _audit_verify(arguments: argparse.Namespace, settings: Settings) -> int:
    from worker.owner.checks.audit import audit

    checks = audit(_registry(settings), settings, file=arguments.file)
    lines = [f"{'ok  ' if c.ok else 'FAIL'} {c.subject}: {c.text}" for c in checks]
    _show(arguments, json.dumps([asdict(check) for check in checks]), "\n".join(lines))
    return 0 if all(check.ok for check in checks) else 1


def _registry(settings: Settings) -> Registry:
    """The worker's folder, with the witness that the settings name."""
    from worker.private.registry import Registry

    return Registry(settings.state_dir, witness=_witnesses(settings))


def _witnesses(settings: Settings) -> WitnessSettings | None:
    from worker.journal.witness import WitnessSettings

    required = settings.witness_need == "required"
    folder = Path(settings.witness).resolve()
    return WitnessSettings(folder, required) if settings.witness else None


def _audit_model(arguments: argparse.Namespace, settings: Settings) -> int:
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
    audit_model(request, registry=_registry(settings), reader=reader)
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


_COMMANDS = {
    "attach": _attach,
    "run": _run,
    "doctor": _doctor,
    "completion": _completion,
    "domain": _domain_file,
    "backup": _backup,
    "restore": _restore,
    "detach": _detach,
    "append": _append,
    "retire": _retire,
    "rotate": _rotate,
    "audit-model": _audit_model,
    "top-up": _top_up,
    "measure": _measure,
    "expect": _expect,
    "claims": _claims,
    "declare-disjoint": _declare,
    "witness": _witness,
    "requests": _requests,
    "confirm": _confirm,
    "audit-verify": _audit_verify,
}

"""The worker's command line: every command of the trusted side, and its only door.

A command imports what it calls when it runs: help and wrong usage start at once, and no command
loads the numerics, engines and readers of another.
"""

from __future__ import annotations

import os

# Before numpy loads: several BLAS threads cost more than they gain on small matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qserver.config import Settings
from qserver.errors import ConfigError, QServerError
from qserver.program import telemetry
from qserver.program.start import completion_script, formatter_of, loading, telling_if_long
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
            return _Run(arguments, settings).end()
    except QServerError as exc:
        _say(f"{exc.code}: {exc}")
        return STRICT if isinstance(exc, StrictError) else 1
    except KeyboardInterrupt:
        return 130


@dataclass(frozen=True)
class _Done:
    """The outcome of a command.

    Args:
        found: for `--json`; a dataclass, a list of these, JSON's own values, or JSON as text.
        words: for people; a text, or its lines.
    """

    found: Any
    words: str | Sequence[str]
    code: int = 0

    @classmethod
    def of_checks(cls, found: Sequence[Any], of: Callable[[Any], str]) -> _Done:
        """The outcome of findings, each `ok` or not with its `text`; `of` names their subject."""
        lines = [f"{'ok  ' if f.ok else 'FAIL'} {of(f)}: {f.text}" for f in found]
        return cls(found, lines, 0 if all(f.ok for f in found) else 1)

    def show(self, *, as_json: bool) -> int:
        """Print the outcome; returns the command's exit code."""
        found, words = self.found, self.words
        if not as_json:
            text = words if isinstance(words, str) else "\n".join(words)
        else:
            text = found if isinstance(found, str) else json.dumps(_plain(found))
        _print(text)
        return self.code


def _plain(found: Any) -> Any:
    if isinstance(found, list | tuple):
        return [_plain(one) for one in found]
    return asdict(found) if is_dataclass(found) and not isinstance(found, type) else found


class _Run:
    """One run of a command: its arguments, and what commands share."""

    def __init__(self, arguments: argparse.Namespace, settings: Settings) -> None:
        self.arguments, self.settings = arguments, settings

    def end(self) -> int:
        """Run the command to its end; returns the exit code."""
        done = _CALLS[self.arguments.command](self.arguments, self)
        return done.show(as_json=self.arguments.json) if isinstance(done, _Done) else done

    @cached_property
    def registry(self) -> Registry:
        """The worker's folder, with the settings' witness."""
        from worker.private.registry import Registry

        return Registry(self.settings.state_dir, witness=self.witness)

    @property
    def witness(self) -> WitnessSettings | None:
        """The witness of the settings."""
        from worker.journal.witness import WitnessSettings

        required = self.settings.witness_need == "required"
        folder = Path(self.settings.witness).resolve()
        return WitnessSettings(folder, required) if self.settings.witness else None

    @property
    def log(self) -> logging.Logger:
        """The worker's log."""
        return _log(self.registry, self.settings)

    @property
    def owned(self) -> dict[str, Any]:
        """The needs of every change by the owner."""
        return {"settings": self.settings, "registry": self.registry}

    def asked(self, kind: type[T], **more: object) -> T:
        """A request: its fields are options of the same name, unless given here."""
        made: Any = kind
        given = vars(self.arguments)
        names = [item.name for item in fields(made) if item.name in given]
        found: T = made(**{name: given[name] for name in names} | more)
        return found


def _attach(arguments: argparse.Namespace, run: _Run) -> _Done:
    with loading():
        from qserver.query.requirement import measure_of
        from qserver.records.declared_unit import Words
        from worker.owner.attach import AttachRequest, attach, guarantee_lines
        from worker.owner.changes import load_claims
        from worker.owner.checks.population import parse_delta, parse_limit
        from worker.private.spark_place import place_of

    domain = _domain(arguments, run.registry)
    people = Words(
        protects=arguments.unit,
        records_per_person=arguments.records_per_person,
        records_per_period=arguments.records_per_period,
        replaced=arguments.replaced,
        enforced=bool(arguments.person_id),
    ).declared(domain, arguments.neighbours)
    request = run.asked(
        AttachRequest,
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
    meta = attach(request, **run.owned, progress=_say)
    words = (
        f"Attached {meta.name} (population {meta.population}, snapshot {meta.snapshot}): "
        f"{len(meta.domain.attributes)} attributes, {meta.domain.n_cells:,} cells, "
        f"{meta.relation}, limit {arguments.limit} epsilon."
    )
    return _Done(meta.to_json(), [words, *guarantee_lines(meta, request.limit_nano)])


def _append(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.arrivals.sealing import AppendRequest, append

    data = address_of(arguments) if arguments.data or arguments.source else None
    done = append(run.asked(AppendRequest, data=data), **run.owned, progress=_say, log=run.log)
    what = done.first if done.first == done.last else f"{done.first} to {done.last}"
    return _Done(
        done, f"{done.dataset}: {what} {'was sealed before' if done.again else 'is sealed'}."
    )


def _retire(_arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.arrivals.sealing import RetireRequest, retire

    done = retire(run.asked(RetireRequest), **run.owned, progress=_say, log=run.log)
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
    return _Done(done, words)


def _declare(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.changes import declare_disjoint

    one, other = arguments.dataset, arguments.other
    done = declare_disjoint(arguments.population, one, other, **run.owned)
    words = (
        f"You declared that nobody in a file that {one} has or had is in another file that {other} "
        f"has or had: {done.n_pairs} pairs of files, {done.n_new} of them new."
    )
    return _Done(done, words)


def _completion(arguments: argparse.Namespace, _run: _Run) -> int:
    sys.stdout.write(completion_script(build_parser(), arguments.shell))
    return 0


def _domain_file(arguments: argparse.Namespace, _run: _Run) -> int:
    from worker.owner.domains.draft import run as run_domain

    return run_domain(arguments, show=_print, say=_say)


def _domain(arguments: argparse.Namespace, registry: Registry) -> Domain:
    from qserver.query.domain_loading import load_new_domain
    from worker.owner.domains.draft import domain_of_columns, infer_domain_document

    if arguments.infer_domain == (arguments.domain is not None):
        raise ConfigError("domain", "be given, or else the flag --infer-domain")
    if arguments.domain is not None:
        return load_new_domain(arguments.domain)
    _say("warning: --infer-domain makes every distinct value of every column public")
    source = address_of(arguments)
    found = infer_domain_document(source, folder=registry.seals, without=arguments.person_id)
    return domain_of_columns(found)


def _answer(arguments: argparse.Namespace, run: _Run) -> int:
    with loading():
        from worker.main_loop import run as answer

    registry = run.registry
    if complaint := telemetry.start(os.environ, name="qserver-worker"):
        _say(complaint)
    return answer(run.settings, registry=registry, log=run.log, say=_say, waits=arguments.wait)


def _backup(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.backups import back_up, kept_lines

    file = arguments.file.absolute()
    note = back_up(file, **run.owned, with_data=not arguments.without_data, say=_say)
    return _Done(note, [f"{arguments.file} is PRIVATE and has:", *kept_lines(note)])


def _restore(arguments: argparse.Namespace, run: _Run) -> int:
    if arguments.file is not None:
        return _put_back(arguments, run)
    from worker.owner.restore import restore

    lost = arguments.accept_loss
    return 0 if restore(**run.owned, accept_loss=lost, log=run.log, say=_print) else 1


def _put_back(arguments: argparse.Namespace, run: _Run) -> int:
    from worker.owner.backups import PutBack, put_back

    if run.settings.redis_url or arguments.accept_loss:
        raise ConfigError("file", "be given without --redis-url and --accept-loss")
    done = put_back(
        PutBack(arguments.file, arguments.journals, arguments.nothing_since),
        settings=run.settings,
        witness=run.witness,
        log=logging.getLogger("qserver.worker"),
        say=_print,
    )
    return 0 if done else 1


def _doctor(_arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.checks.audit import examine

    return _Done.of_checks(examine(run.registry, run.settings), lambda f: str(f.check))


def _detach(arguments: argparse.Namespace, run: _Run) -> int:
    from worker.owner.changes import detach

    detach(arguments.name, **run.owned, log=run.log, say=_say)
    _print(f"Detached {arguments.name}. What was spent stays spent.")
    return 0


def _rotate(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.attach import declared_lines
    from worker.owner.rotate import RotateRequest, rotate

    request = run.asked(RotateRequest, data=address_of(arguments))
    meta = rotate(request, **run.owned, progress=_say, log=run.log)
    spent = "does not count for them" if request.disjoint_people else "counts for its people"
    words = (
        f"{meta.name} has snapshot {meta.snapshot} now. The earlier history stays readable; "
        f"what was spent on it {spent}.\nWorkers that run go on with the new data by themselves."
    )
    return _Done(meta.to_json(), [words, *declared_lines(meta)])


def _top_up(arguments: argparse.Namespace, run: _Run) -> _Done:
    from qserver.records.charge import epsilon_text
    from worker.owner.changes import top_up
    from worker.owner.checks.population import parse_limit

    done = top_up(arguments.population, parse_limit(arguments.to), **run.owned)
    before, after = epsilon_text(done.before_nano), epsilon_text(done.after_nano)
    words = f"The limit of {done.population} was {before} and is {after} epsilon."
    return _Done({"population": done.population, "limit": after}, words)


def _measure(arguments: argparse.Namespace, run: _Run) -> _Done:
    from qserver.query.requirement import measure_of
    from worker.owner.changes import set_measure

    done = set_measure(arguments.name, measure_of(arguments.measure), **run.owned)
    words = f"Where an asker does not choose, questions on {done.dataset} now measure {done.after}"
    return _Done(done, f"{words}; before, they measured {done.before}.")


def _expect(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.changes import set_expected

    done = set_expected(arguments.name, arguments.number, **run.owned)
    was = f"; it was {done.before:,}" if done.before else ""
    words = f"About {done.after:,} questions are expected on {done.dataset}{was}."
    if not done.after:
        words = f"{done.dataset} has no expected number of questions any more."
    return _Done(done, words)


def _claims(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.changes import claims_of, known_lines, load_claims, set_claims

    if arguments.set is None:
        now = claims_of(arguments.name, settings=run.settings)
    else:
        now = set_claims(arguments.name, load_claims(arguments.set), **run.owned)
    return _Done(now, known_lines(now))


def _witness(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.witness import see_to_witnesses

    found = see_to_witnesses(run.registry, accept=arguments.accept)
    return _Done.of_checks(found, lambda f: f"witness of {f.population}")


def _requests(_arguments: argparse.Namespace, run: _Run) -> _Done:
    from qserver.storage.wishes import Wishes

    found = Wishes.open(run.settings, role="worker").all("qserver-worker")
    lines = [f"{one.digest}  {one.words}\n  {one.line}" for one in found] or ["none waits"]
    plain = [{"id": one.digest, "command": one.line, "by": one.by, "at": one.at} for one in found]
    return _Done(plain, lines)


def _confirm(arguments: argparse.Namespace, run: _Run) -> int:
    from qserver.storage.wishes import Wishes

    wishes = Wishes.open(run.settings, role="worker")
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


def _audit_verify(arguments: argparse.Namespace, run: _Run) -> _Done:
    from worker.owner.checks.audit import audit

    checks = audit(run.registry, run.settings, file=arguments.file)
    return _Done.of_checks(checks, lambda c: str(c.subject))


def _audit_model(arguments: argparse.Namespace, run: _Run) -> _Done:
    from qserver.storage.store import Store
    from worker.owner.model_audit import TracingRequest, audit_model

    id_ = arguments.model_id
    reader = Store.open(run.settings, role="worker-reader") if id_ else None
    request = run.asked(TracingRequest, model=id_ or arguments.model, relation=arguments.neighbours)
    audit_model(request, registry=run.registry, reader=reader)
    written = [str(p) for p in (request.out, request.plot) if p is not None]
    words = f"Wrote {' and '.join(written)}. PRIVATE: it tells about single people."
    return _Done({"private_files": written}, words)


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


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


_CALLS: dict[str, Callable[[argparse.Namespace, _Run], _Done | int]] = {
    "attach": _attach,
    "run": _answer,
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

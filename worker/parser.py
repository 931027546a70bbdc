"""The parser of the owner's commands: names, flags, and what each of them declares."""

from __future__ import annotations

import argparse
from pathlib import Path

import qserver
from qserver.program import SHELLS
from qserver.query.requirement import DEFAULT_PHI, MEASURES
from qserver.records.privacy.kinds import PRIVACIES
from qserver.records.unit import PROTECTS, REPLACED
from worker.owner.arrivals.findings import LATE
from worker.sources.address import add_place, add_source

_INIT_HELP = "write a draft from the names and types of columns"
_CHECK_HELP = "tell every fault of a file, with its line"
_SHOW_VALUES_HELP = """\
read the data too, and write into comments of the draft up to 40 values of each column, and the
least and greatest number or day. These are PRIVATE. They are shown to whoever reads the draft, and
to nobody else; a value that you take over becomes public to every analyst, without noise
"""


def add_domain(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """Add the commands `init`, `check` and `schema`; `common` has what all commands take."""
    parser.description = "Draft the domain file of a dataset, check one, or print its JSON Schema."
    found = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = found.add_parser("init", parents=[common], help=_INIT_HELP)
    init.description = (
        "Write a draft of a domain file, in TOML: from the names and types of the columns alone, "
        "so nothing in it is private. Fill in bounds and labels, then check it."
    )
    add_source(init, what="where the data lie")
    init.add_argument("-o", "--out", type=Path, metavar="FILE", help="a new .toml file")
    init.add_argument("--show-values", action="store_true", help=_SHOW_VALUES_HELP)
    check = found.add_parser("check", parents=[common], help=_CHECK_HELP)
    check.description = (
        "Tell every fault of a domain file at once, each with its line, its key and how to mend "
        "it. With a source, columns are looked for too, by name and type; no record is read. "
        "Exit code 1 if there is a fault."
    )
    check.add_argument("file", type=Path, metavar="FILE", help=".toml or .json")
    add_source(check, what="the data that it is for", required=False)
    found.add_parser("schema", parents=[common], help="print the JSON Schema of domain files")


_DOMAIN_HELP = """domain file, .json or .toml: labels, bins of numbers, and one attribute of
periods, such as every week from 2024-W10"""
_INFER_HELP = """make the domain from the private file itself. This REVEALS DATA: every distinct
value of every column becomes public, with no noise and outside the ledger. Use it for data whose
values are public anyway."""
_REDIS_HELP = """address of the store (default: QSERVER_REDIS_URL, or else whatever
`qserver serve --state` or the demo runs on the state folder)"""
_STATE_HELP = """folder of the worker's private files, and of the embedded store where that is used
(QSERVER_STATE_DIR)"""
_WITNESS_HELP = """folder on another disk or host in which the worker notes how long its journals
were, so that an older copy of the state folder is noticed (QSERVER_WITNESS)"""
_WITNESSES_HELP = "begin the witnesses of rollback, or check them"
_REQUESTS_HELP = "list what owners asked for in the browser"
_CONFIRM_HELP = "run a request that an owner made in the browser"
_BACKUP_HELP = "write store, journals and data as of one moment into one private file"
_RESTORE_HELP = "put a backup back, or bring the store up to the journals"
_DEMAND_HELP = (
    "plan as if the questions that were paid for on DATASET so far would return; it must be of the "
    "same population and domain"
)
_EXPECT_HELP = "say how many questions are expected until the limit"
_EXPECTED_HELP = (
    "Where that is far more than rows could answer, tables that later questions use are bought at "
    "once. It is public, and decides what is measured, never what a person may lose."
)
_MEASURE_HELP = "choose what questions measure that do not choose it themselves"
_LIST_CLAIMS_HELP = "list or change the claims that a dataset must not reveal too well"
_DECLARE_HELP = "declare that two attached datasets have no person in common"
_VERIFY_HELP = "check an audit log against the journals, and what every person has lost"
_AUDIT_HELP = "attack a network with its own members, into a file for you alone"
_OTHER_PEOPLE_HELP = """\
declare that nobody in this file is in another population, though one has the same file, records or
people; otherwise such a file is refused, as the same people would get a limit for each population
"""
_APPEND_HELP = "seal the next periods of a dataset whose data arrive over time"
_RETIRE_HELP = "erase the records of old periods; released answers about them stay"
_DOMAINS_HELP = "draft or check a domain file"
_TO_HELP = "the last period whose records are in the file; all up to it are sealed"
_EMPTY_HELP = "confirm that some periods have no records"
_AS_IT_IS_HELP = """\
accept a column that is missing or outside the domain in more than 95 percent of the records, which
attach refuses otherwise; given at attach, it holds for later data too
"""
_LATE_HELP = """\
how to treat records whose period is sealed: drop leaves them out, move counts them in the first
open period
"""
_STRICT_HELP = """\
seal nothing if a record would not be counted as it stands: late ones, values outside the domain or
missing, more of a person than K or M, a period beyond the capacity. Says how many of each, for you
alone, and ends with exit code 3
"""
_CAPACITY_HELP = """\
most records that this and every later file may have, a public number: answers then take as long as
a scan of so many records needs, so that their time does not tell how many there are; with --to, of
one period, and needed
"""
_TIME_HELP = """\
call this ordered attribute the time, where all data are there: every table tells its values apart,
and a question may be measured value by value. That is cheaper where people ask about single values
and short recent spans again and again, and up to two and a half times as dear where they ask about
spans that never return
"""
_CLAIMS_HELP = """\
refuse answers after which a claim could be known too well; a JSON list of objects with `name`,
`query` (as in HTTP), `width` and `p`: that the query lies within any interval of that width must
not be known with a probability above p
"""
_CHOICES_HELP = """\
auto: tables may be bought that later questions use too; only_this: rows for each question alone
"""
_PHI_HELP = """\
what may be spent on rows as asked before tables are bought that answer later questions too, as a
part of the tables' price (default %(default)g): 0.25 for data that will be asked for years, 1 or
more where few questions are expected
"""


_UNIT_HELP = """\
what is protected, for data with periods. person (default): a person with K records in all, M of
them in a period. person-period: what a person did in any one period, up to K records of it; what
the periods tell together is not limited. person-unbounded: a person with M records in every period,
without a bound in all; spending then grows with every period that is asked about
"""
_PRIVACY_HELP = """\
what the limit bounds, for this population for ever: pure (default), epsilon itself, with Laplace
noise; zcdp, zero-concentrated privacy with Gaussian noise, of which the limit is epsilon at
--delta: better for many questions, worse for few. Counts and sums are served, and no models
"""
_DELTA_HELP = """\
with --privacy zcdp, at most 1e-6, such as 1e-9: with that probability somebody may lose more than
the limit. Choose far less than one over the number of people
"""
_REPLACED_HELP = """\
with --neighbours replace-one and periods: any-period (default) protects in which periods a person
has records too; same-period only what those records say, and costs less
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `command` of what it parses is the name of one."""
    parser = argparse.ArgumentParser(
        prog="qserver-worker",
        description="The trusted side of qserver: the only program that sees private rows.",
        epilog="Exit codes: 0 success, 1 failure (the message says why), 2 wrong usage, 3 `append "
        "--strict` found something and sealed nothing.",
    )
    parser.add_argument("--version", action="version", version=qserver.__version__)
    found = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--redis-url", help=_REDIS_HELP)
    common.add_argument("--state", type=Path, help=_STATE_HELP)
    common.add_argument("--witness", metavar="FOLDER", help=_WITNESS_HELP)
    common.add_argument("--json", action="store_true", help="print JSON")
    _add_attach(found.add_parser("attach", parents=[common], help="attach a dataset"))
    runs = found.add_parser("run", parents=[common], help="answer questions until stopped")
    runs.add_argument("--wait", action="store_true", help="wait for the first dataset")
    found.add_parser("doctor", parents=[common], help="check data, journal and store")
    shell = found.add_parser("completion", parents=[common], help="print a shell's completions")
    shell.add_argument("shell", choices=SHELLS)
    _add_backup(found.add_parser("backup", parents=[common], help=_BACKUP_HELP))
    _add_restore(found.add_parser("restore", parents=[common], help=_RESTORE_HELP))
    gone = found.add_parser("detach", parents=[common], help="take a dataset off the list")
    gone.add_argument("name", help="the dataset's name")
    add_domain(found.add_parser("domain", help=_DOMAINS_HELP), common)
    _add_append(found.add_parser("append", parents=[common], help=_APPEND_HELP))
    _add_retire(found.add_parser("retire", parents=[common], help=_RETIRE_HELP))
    _add_rotate(found.add_parser("rotate", parents=[common], help="replace a dataset's data"))
    _add_audit_model(found.add_parser("audit-model", parents=[common], help=_AUDIT_HELP))
    more = found.add_parser("top-up", parents=[common], help="raise a population's limit")
    more.add_argument("population", help="the people who own the limit")
    more.add_argument("--to", required=True, metavar="EPSILON", help="the new limit, for ever")
    _add_measure(found.add_parser("measure", parents=[common], help=_MEASURE_HELP))
    _add_expect(found.add_parser("expect", parents=[common], help=_EXPECT_HELP))
    _add_claims(found.add_parser("claims", parents=[common], help=_LIST_CLAIMS_HELP))
    _add_declare(found.add_parser("declare-disjoint", parents=[common], help=_DECLARE_HELP))
    _add_witness(found.add_parser("witness", parents=[common], help=_WITNESSES_HELP))
    found.add_parser("requests", parents=[common], help=_REQUESTS_HELP)
    _add_confirm(found.add_parser("confirm", parents=[common], help=_CONFIRM_HELP))
    _add_audit_verify(found.add_parser("audit-verify", parents=[common], help=_VERIFY_HELP))
    return parser


def _add_confirm(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show what an owner asked for in the browser, in words and as a command line, and run that "
        "command once you typed yes. Whoever controls the web server can ask for anything: confirm "
        "only what you read here and want."
    )
    parser.add_argument("digest", metavar="ID", help="as `requests` shows it")
    parser.add_argument("--drop", action="store_true", help="forget it instead")


def _add_audit_verify(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check the audit log of the store, or of a file that `qserver audit export` wrote, as "
        "`qserver audit verify` does. Then hold its charges against the worker's journals, and let "
        "an accountant that shares no code with the ledger recompute what every person has lost. "
        "It reads the journals and the log only, so it also works on copies of both."
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="default: the store")


def _add_expect(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say about how many questions are expected on a dataset until its limit is spent. "
        + _EXPECTED_HELP
    )
    parser.add_argument("name", help="the dataset's name")
    parser.add_argument("number", type=int, metavar="N", help="questions; 0 takes the word back")


def _add_measure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Choose what is measured for questions on a dataset whose asker does not choose. It "
        "decides which purchases are made, never what a person may lose."
    )
    parser.add_argument("name", help="the dataset's name")
    parser.add_argument("measure", choices=MEASURES, help=_CHOICES_HELP)


def _add_claims(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the claims about a dataset, or put others in their place. They hold for every spend "
        "that is planned from then on, with all that was charged before counted in."
    )
    parser.add_argument("name", help="the dataset's name")
    parser.add_argument("--set", type=Path, metavar="FILE", help=_CLAIMS_HELP)


def _add_witness(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Begin the witness of each population that has none, and say whether the others agree "
        "with the journals. A witness notes, on another disk or host, how long a journal was: if "
        "an older copy of the state folder is put back, the worker refuses to spend."
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="POPULATION",
        help="the newest journal is lost: go on from this one, on your word that nothing was asked "
        "since it was copied; if that is wrong, people can lose more than the limit",
    )


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


def _add_append(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Seal the next periods of a dataset that was attached with --to. Nothing that was released "
        "changes, and questions about these periods are answered from the next full minute on. "
        "The same append again does nothing. It refuses records of periods after --to and more "
        "records than the capacity, before anything is sealed; an append that is put off because "
        "of what is in the data may itself tell something about them."
    )
    parser.add_argument("name", help="the dataset's name")
    add_source(parser, required=False, what="records of the new periods; same columns")
    parser.add_argument("--to", required=True, metavar="PERIOD", help=_TO_HELP)
    parser.add_argument("--empty", action="store_true", help=_EMPTY_HELP)
    parser.add_argument("--as-it-is", action="store_true", help=_AS_IT_IS_HELP)
    said = _LATE_HELP + "(default: as attach said)"
    parser.add_argument("--late", choices=LATE, help=said)
    parser.add_argument("--strict", action="store_true", help=_STRICT_HELP)
    parser.add_argument("--same-data-other-people", action="store_true", help=_OTHER_PEOPLE_HELP)


def _add_retire(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Erase the records of old periods of a dataset that was attached with --to. What was "
        "released about them stays, and answers from it stay free; a question that needs fresh "
        "noise about these periods is refused. Where a person is kept to K records in all, the "
        "number of each person's records stays, under keyed digests, without the periods: else "
        "everybody would begin anew. The same command again does nothing. It cannot be taken back."
    )
    parser.add_argument("name", help="the dataset's name")
    parser.add_argument(
        "--before", required=True, metavar="PERIOD", help="the first period whose records stay"
    )


def _add_rotate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Put new data in the place of a dataset's. Where data arrive over time this corrects "
        "sealed periods: the new data hold all of them. What is known freezes and costs again; "
        "the command says what was spent on it."
    )
    parser.add_argument("name", help="the dataset's name")
    add_source(parser, what="the new data; same columns")
    parser.add_argument(
        "--correct",
        action="store_true",
        help="go on where data arrive over time: the new data hold all sealed periods anew",
    )
    parser.add_argument("--empty", action="store_true", help=_EMPTY_HELP)
    parser.add_argument("--as-it-is", action="store_true", help=_AS_IT_IS_HELP)
    parser.add_argument(
        "--without-demand",
        action="store_true",
        help="plan as if nothing had been asked of the old data; otherwise tables are bought for "
        "its questions as soon as they return",
    )
    parser.add_argument(
        "--disjoint-people",
        action="store_true",
        help="declare that nobody in the new file is in any file that the dataset has or had; "
        "otherwise what was spent on those counts for everybody in the new file too",
    )
    parser.add_argument("--same-data-other-people", action="store_true", help=_OTHER_PEOPLE_HELP)


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


def _add_backup(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one file that has the store, the journals, the worker's key and the private data "
        "as codes, while everything runs. Keep it as you keep the data. With --redis-url the "
        "server sends a snapshot, which its user must be allowed to ask for (+sync)."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a new file")
    parser.add_argument(
        "--without-data",
        action="store_true",
        help="leave the private data out: copy STATE/worker/seals and STATE/worker/parts yourself",
    )


def _add_restore(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "With a file that `backup` wrote: make the empty folder --state of it, check it by the "
        "books, and say what may go on. A population whose journal no witness confirms is closed: "
        "history is answered, and nothing is drawn any more. Without a file: give the store "
        "everything that the journals have and it lacks."
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="a backup")
    parser.add_argument(
        "--journals", type=Path, metavar="DIR", help="later copies of the journals, to go on from"
    )
    parser.add_argument(
        "--nothing-since",
        action="append",
        default=[],
        metavar="POPULATION",
        help="your word that nothing was charged since the backup (or since --journals); if that "
        "is wrong, people can lose more than the limit",
    )
    parser.add_argument(
        "--accept-loss",
        action="append",
        default=[],
        metavar="POPULATION",
        help="its journal is lost: begin another one, on your word that the store forgot nothing",
    )


def _add_attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="public name of the dataset")
    add_source(parser, what="where the data lie")
    add_place(parser)
    parser.add_argument("--domain", type=Path, help=_DOMAIN_HELP)
    parser.add_argument("--infer-domain", action="store_true", help=_INFER_HELP)
    parser.add_argument(
        "--limit", required=True, help="the population's epsilon; only `top-up` raises it"
    )
    parser.add_argument("--privacy", choices=PRIVACIES, default="pure", help=_PRIVACY_HELP)
    parser.add_argument("--delta", metavar="D", help=_DELTA_HELP)
    parser.add_argument(
        "--neighbours",
        choices=("add-remove", "replace-one"),
        default="add-remove",
        help="what the guarantee compares: one record more or less, or one replaced",
    )
    _add_people(parser)
    parser.add_argument(
        "--disclosure-cap",
        type=float,
        metavar="P",
        help="refuse answers after which a cell's count could be known with a probability above P",
    )
    parser.add_argument("--claims", type=Path, metavar="FILE", help=_CLAIMS_HELP)
    _add_disjoint(parser)
    parser.add_argument("--demand-of", default="", metavar="DATASET", help=_DEMAND_HELP)
    parser.add_argument("--capacity", type=int, metavar="N", help=_CAPACITY_HELP)
    parser.add_argument(
        "--to",
        default="",
        metavar="PERIOD",
        help="data arrive over time, and this file has those up to this period of the domain's "
        "attribute of kind `period`; `append` brings the next. Only what has arrived is counted",
    )
    parser.add_argument("--time", default="", metavar="ATTRIBUTE", help=_TIME_HELP)
    parser.add_argument("--empty", action="store_true", help=_EMPTY_HELP)
    parser.add_argument("--as-it-is", action="store_true", help=_AS_IT_IS_HELP)
    said = _LATE_HELP + "in an append that does not say; with --to (default drop)"
    parser.add_argument("--late", choices=LATE, help=said)
    parser.add_argument(
        "--measure",
        choices=MEASURES,
        default="auto",
        help="what is measured where an asker does not choose (default %(default)s); "
        + _CHOICES_HELP,
    )
    parser.add_argument("--phi", type=float, default=DEFAULT_PHI, help=_PHI_HELP)
    about = "about how many questions are expected until the limit (default: nobody says). "
    parser.add_argument("--expect", type=int, default=0, metavar="N", help=about + _EXPECTED_HELP)


def _add_people(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--population",
        help="the people behind the data (default: the dataset's name); datasets about the same "
        "people must share it, so that they share the limit",
    )
    parser.add_argument(
        "--records-per-person",
        type=int,
        metavar="K",
        help="most records one person owns (default 1); your declaration without --person-id. "
        "It must be said for data with periods, where the same person may come again",
    )
    parser.add_argument(
        "--records-per-period",
        type=int,
        metavar="M",
        help="most records one person owns in one period, for data with periods (default: as many "
        "as in all; 1 for unit person-unbounded)",
    )
    parser.add_argument("--unit", choices=PROTECTS, help=_UNIT_HELP)
    parser.add_argument("--replaced", choices=REPLACED, help=_REPLACED_HELP)
    parser.add_argument(
        "--person-id",
        default="",
        metavar="COLUMN",
        help="column that tells whose record it is: of each person at most --records-per-person "
        "records are kept, chosen by a secret key; records without a person are dropped",
    )


def _add_disjoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--disjoint-from",
        action="append",
        default=[],
        metavar="DATASET",
        help="declare that nobody in this file is in any file that DATASET has or had; may be "
        "given several times. It says nothing of other datasets: if those hold the same people, "
        "what is spent on both adds up",
    )
    parser.add_argument("--same-data-other-people", action="store_true", help=_OTHER_PEOPLE_HELP)

"""The owner's commands in one table: names, help, and arguments, each stated once.

An argument is written as usage shows it. `--to PERIOD` takes a value, whose word says how it is
read; `--empty` takes none. `FILE...` may be repeated, `[FILE]` left out, and `!` must be there.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import qserver
from qserver.program.start import SHELLS
from qserver.query.requirement import DEFAULT_PHI, MEASURES
from qserver.records.privacy import PRIVACIES
from qserver.records.unit import PROTECTS, REPLACED
from worker.owner.arrivals.findings import LATE

Arguments = Mapping[str, str | Mapping[str, str]]
"""Help by argument; a name alone stands for several arguments, of which people type one."""


@dataclass(frozen=True)
class Command:
    """One command: its line in the list of all, its own help, arguments and commands."""

    brief: str
    about: str = ""
    arguments: Arguments = field(default_factory=dict)
    actions: Mapping[str, Command] = field(default_factory=dict)


_READERS: dict[str, type] = {
    **dict.fromkeys(("FILE", "DIR"), Path),
    **dict.fromkeys("KMN", int),
    **dict.fromkeys(("NUMBER", "P", "SECONDS", "SHARE"), float),
}
_CHOICES = {
    "late": LATE,
    "measure": MEASURES,
    "neighbours": ("add-remove", "replace-one"),
    "privacy": PRIVACIES,
    "replaced": REPLACED,
    "shell": SHELLS,
    "unit": PROTECTS,
}
_USUAL = {
    "expect": 0,
    "measure": "auto",
    "neighbours": "add-remove",
    "phi": DEFAULT_PHI,
    "privacy": "pure",
    "delta": None,
    "redis-url": None,
    "witness": None,
}
"""What stands for an option that is left out; by default an empty text, and None for a number."""


def _source(what: str, must: str = "!") -> Arguments:
    """Where data lie; `what` they are for, in the help's words."""
    uri = {"--source URI": f"{what}: {_SOURCE}", "--data PATH": "the same, for a file or a folder"}
    return {f"source{must}": uri, **_WITHIN_SOURCE}


_SOURCE = """a path (.csv, .tsv, also .gz or .zst, .parquet, a folder of these), s3://BUCKET/KEY,
sqlite:///PATH, duckdb:///PATH, postgresql://USER:{env:NAME}@HOST/DB, adbc:DRIVER,
spark://HOST:PORT or spark-connect://HOST:PORT. A secret is never typed: {env:NAME} stands for an
environment variable, {file:PATH} for what is in a file"""
_WITHIN_SOURCE = {
    "--table T": "the table of a database",
    "--query SQL": "or the SELECT whose rows are the records; it may join tables",
    "--option KEY=VALUE...": """for an adbc:DRIVER, such as uri=..., or Spark; may be given several
    times""",
}
_NAME = {"name": "the dataset's name"}
_EMPTY = {"--empty": "confirm that some periods have no records"}
_AS_IT_IS = {
    "--as-it-is": """accept a column that is missing or outside the domain in more than 95 percent
    of the records; otherwise it is refused. Given at attach, it holds for later data too"""
}
_OTHER_PEOPLE = {
    "--same-data-other-people": """declare that nobody in this file is in another population, though
    that has the same file, records or people. Otherwise such a file is refused: the same people
    would get one limit in each population"""
}
_LATE = """how to treat records whose period is sealed: drop leaves them out, move counts them in
the first open period"""
_CLAIMS = """refuse answers after which a claim could be known too well. The file is a JSON list of
objects with `name`, `query` (as in HTTP), `width` and `p`: nobody may know with a probability above
p that the query lies within some interval of that width"""
_MEASURES = """auto: tables may be bought that later questions use too; only_this: rows for each
question alone"""
_EXPECTED = """If rows could answer far fewer, tables that later questions use are bought at once.
The number is public. It decides what is measured, never what a person may lose."""
_COMMON = {
    "--redis-url URL": """address of the store (default: QSERVER_REDIS_URL, or else whatever
    `qserver serve --state` or the demo runs on the state folder)""",
    "--state DIR": """folder of the worker's private files, and of the embedded store where that
    is used (QSERVER_STATE_DIR)""",
    "--witness FOLDER": """folder on another disk or host in which the worker notes how long its
    journals were, so that an older copy of the state folder is noticed (QSERVER_WITNESS)""",
    "--json": "print JSON",
}
_PEOPLE = {
    "--population NAME": """the people behind the data (default: the dataset's name); datasets about
    the same people must share it, so that they share the limit""",
    "--records-per-person K": """most records of one person (default 1). Without --person-id it is
    your declaration. Data with periods need it: there the same person may come again""",
    "--records-per-period M": """most records of one person in one period, for data with periods
    (default: as many as in all; 1 for unit person-unbounded)""",
    "--unit": """what is protected, for data with periods. person (default): a person with K records
    in all, M of them in a period. person-period: what a person did in any one period, up to K
    records of it; what the periods tell together is not limited. person-unbounded: a person with M
    records in every period, without a bound in all; spending then grows with every period that is
    asked about""",
    "--replaced": """with --neighbours replace-one and periods: any-period (default) also protects
    in which periods a person has records; same-period protects only what those records say, and
    costs less""",
    "--person-id COLUMN": """column that tells whose record it is. At most --records-per-person
    records of each person are kept, chosen by a secret key. Records without a person are
    dropped""",
}
_ATTACH = {
    "name": "public name of the dataset",
    **_source("where the data lie"),
    "--codes URI": """with a Spark source: code and count there, and keep the codes as Parquet in a
    new folder below this one, which all of Spark's machines reach, such as s3a://BUCKET/codes;
    without it the codes are sealed on this machine, as of every source""",
    "--slot SECONDS": """with --codes: seconds that the count of one row or table takes at most, a
    public number. Answers take whole slots, so that their time does not tell how many records there
    are""",
    "--domain FILE": """domain file, .json or .toml: labels, bins of numbers, and one attribute of
    periods, such as every week from 2024-W10""",
    "--infer-domain": """make the domain from the private file itself. This REVEALS DATA: every
    distinct value of every column becomes public, with no noise and outside the ledger. Use it for
    data whose values are public anyway.""",
    "--limit EPSILON!": "the population's epsilon; only `top-up` raises it",
    "--privacy": """what the limit bounds, for this population for ever. pure (default): epsilon,
    with Laplace noise. zcdp: zero-concentrated privacy, with Gaussian noise; the limit is epsilon
    at --delta. zcdp is better for many questions and worse for few""",
    "--delta D": """with --privacy zcdp, at most 1e-6, such as 1e-9: somebody may lose more than the
    limit with this probability. Choose far less than one over the number of people""",
    "--neighbours": "what the guarantee compares: one record more or less, or one replaced",
    **_PEOPLE,
    "--disclosure-cap P": """refuse answers after which a cell's count could be known with a
    probability above P""",
    "--claims FILE": _CLAIMS,
    "--disjoint-from DATASET...": """declare that nobody in this file is in any file that DATASET
    has or had; may be given several times. It says nothing of other datasets: if those hold the
    same people, what is spent on both adds up""",
    **_OTHER_PEOPLE,
    "--demand-of DATASET": """plan as if the questions that were paid for on DATASET so far would
    return; it must be of the same population and domain""",
    "--capacity N": """most records that this and every later file may have, a public number:
    answers then take as long as a scan of so many records needs, so that their time does not tell
    how many there are; with --to, of one period, and needed""",
    "--to PERIOD": """data arrive over time, and this file has those up to this period of the
    domain's attribute of kind `period`; `append` brings the next. Only what has arrived is
    counted""",
    "--time ATTRIBUTE": """the ordered attribute that is the time, if all data are there. Every
    table tells its values apart, and a question may be measured value by value. That is cheaper if
    people ask about single values and short recent spans again and again, and up to two and a half
    times as dear if they ask about spans that never return""",
    **_EMPTY,
    **_AS_IT_IS,
    "--late": f"{_LATE} in an append that does not say; with --to (default drop)",
    "--measure": "what is measured if an asker does not choose (default %(default)s); " + _MEASURES,
    "--phi SHARE": """what may be spent on rows as asked before tables are bought that answer later
    questions too, as a part of the tables' price (default %(default)g): 0.25 for data that will be
    asked for years, 1 or more where few questions are expected""",
    "--expect N": "about how many questions are expected until the limit (default: nobody says). "
    + _EXPECTED,
}
_DOMAIN = {
    "init": Command(
        "write a draft from the names and types of columns",
        """Write a draft of a domain file, in TOML: from the names and types of the columns alone,
        so nothing in it is private. Fill in bounds and labels, then check it.""",
        {
            **_source("where the data lie"),
            "--out/-o FILE": "a new .toml file",
            "--show-values": """read the data too, and write into comments of the draft up to 40
            values of each column, and the least and greatest number or day. These are PRIVATE. They
            are shown to whoever reads the draft, and to nobody else; a value that you take over
            becomes public to every analyst, without noise""",
        },
    ),
    "check": Command(
        "tell every fault of a file, with its line",
        """Tell every fault of a domain file at once, each with its line, its key and how to mend
        it. With a source, columns are looked for too, by name and type; no record is read. Exit
        code 1 if there is a fault.""",
        {"file FILE": ".toml or .json", **_source("the data that it is for", "")},
    ),
    "schema": Command("print the JSON Schema of domain files"),
}
COMMANDS: Mapping[str, Command] = {
    "attach": Command("attach a dataset", "", _ATTACH),
    "run": Command("answer questions until stopped", "", {"--wait": "wait for the first dataset"}),
    "doctor": Command("check data, journal and store"),
    "completion": Command("print a shell's completions", "", {"shell": ""}),
    "backup": Command(
        "write store, journals and data as of one moment into one private file",
        """Write one file that has the store, the journals, the worker's key and the private data as
        codes, while everything runs. Keep it as you keep the data. With --redis-url the server
        sends a snapshot, which its user must be allowed to ask for (+sync).""",
        {
            "file FILE": "a new file",
            "--without-data": """leave the private data out: copy STATE/worker/seals and
            STATE/worker/parts yourself""",
        },
    ),
    "restore": Command(
        "put a backup back, or bring the store up to the journals",
        """With a file that `backup` wrote: make the empty folder --state of it, check it by the
        books, and say what may go on. A population whose journal no witness confirms is closed:
        history is answered, and nothing is drawn any more. Without a file: give the store
        everything that the journals have and it lacks.""",
        {
            "file [FILE]": "a backup",
            "--journals DIR": "later copies of the journals, to go on from",
            "--nothing-since POPULATION...": """your word that nothing was charged since the backup
            (or since --journals); if that is wrong, people can lose more than the limit""",
            "--accept-loss POPULATION...": """its journal is lost: begin another one, on your word
            that the store forgot nothing""",
        },
    ),
    "detach": Command("take a dataset off the list", "", {**_NAME}),
    "domain": Command(
        "draft or check a domain file",
        "Draft the domain file of a dataset, check one, or print its JSON Schema.",
        actions=_DOMAIN,
    ),
    "append": Command(
        "seal the next periods of a dataset whose data arrive over time",
        """Seal the next periods of a dataset that was attached with --to. Nothing that was released
        changes, and questions about these periods are answered from the next full minute on. The
        same append again does nothing. It refuses records of periods after --to and more records
        than the capacity, before anything is sealed; an append that is put off because of what is
        in the data may itself tell something about them.""",
        {
            **_NAME,
            **_source("records of the new periods; same columns", ""),
            "--to PERIOD!": """the last period whose records are in the file; all up to it are
            sealed""",
            **_EMPTY,
            **_AS_IT_IS,
            "--late": f"{_LATE} (default: as attach said)",
            "--strict": """seal nothing if a record would not be counted as it stands: late ones,
            values outside the domain or missing, more of a person than K or M, a period beyond the
            capacity. Says how many of each, for you alone, and ends with exit code 3""",
            **_OTHER_PEOPLE,
        },
    ),
    "retire": Command(
        "erase the records of old periods; released answers about them stay",
        """Erase the records of old periods of a dataset that was attached with --to. What was
        released about them stays, and answers from it stay free; a question that needs fresh noise
        about these periods is refused. If people are kept to K records in all, each person's number
        of records stays, under keyed digests and without the periods: otherwise everybody would
        begin anew. The same command again does nothing. It cannot be taken back.""",
        {**_NAME, "--before PERIOD!": "the first period whose records stay"},
    ),
    "rotate": Command(
        "replace a dataset's data",
        """Put new data in the place of a dataset's. Where data arrive over time this corrects
        sealed periods: the new data hold all of them. What is known freezes and costs again; the
        command says what was spent on it.""",
        {
            **_NAME,
            **_source("the new data; same columns"),
            "--correct": """go on where data arrive over time: the new data hold all sealed periods
            anew""",
            **_EMPTY,
            **_AS_IT_IS,
            "--without-demand": """plan as if nothing had been asked of the old data; otherwise
            tables are bought for its questions as soon as they return""",
            "--disjoint-people": """declare that nobody in the new file is in any file that the
            dataset has or had; otherwise what was spent on those counts for everybody in the new
            file too""",
            **_OTHER_PEOPLE,
        },
    ),
    "audit-model": Command(
        "attack a network with its own members, into a file for you alone",
        "",
        {
            "name": "the dataset's name; its records are the members",
            "model!": {
                "--model FILE": "the network, a BIF file",
                "--model-id ID": "or a network that was learnt here",
            },
            "--reference FILE!": """records of people who are not in the dataset, with the same
            columns""",
            "--out FILE!": "the report, a new private file",
            "--plot FILE": "the same as SVG, a new private file",
            "--epsilon NUMBER": "what the model cost",
            "--neighbours": "",
        },
    ),
    "top-up": Command(
        "raise a population's limit",
        "",
        {"population": "the people who own the limit", "--to EPSILON!": "the new limit, for ever"},
    ),
    "measure": Command(
        "choose what is measured for questions that do not choose it",
        """Choose what is measured for questions on a dataset if their asker does not choose. It
        decides which purchases are made, never what a person may lose.""",
        {**_NAME, "measure": _MEASURES},
    ),
    "expect": Command(
        "say how many questions are expected until the limit",
        "Say about how many questions are expected on a dataset until its limit is spent. "
        + _EXPECTED,
        {**_NAME, "number N": "questions; 0 takes the word back"},
    ),
    "claims": Command(
        "list or change the claims that a dataset must not reveal too well",
        """List the claims about a dataset, or put others in their place. They hold for every spend
        that is planned from then on. What was charged before counts, too.""",
        {**_NAME, "--set FILE": _CLAIMS},
    ),
    "declare-disjoint": Command(
        "declare that two attached datasets have no person in common",
        """Declare that nobody in a file that DATASET has or had is in another file that OTHER has
        or had. If both names are the same, nobody is in two of its files. What was spent on such
        files then no longer adds up. A wrong word lets a person lose more than the limit, and it
        cannot be taken back.""",
        {"population": "", "dataset DATASET": "", "other OTHER": ""},
    ),
    "witness": Command(
        "begin the witnesses of rollback, or check them",
        """Begin the witness of each population that has none, and say whether the others agree with
        the journals. A witness notes, on another disk or host, how long a journal was: if an older
        copy of the state folder is put back, the worker refuses to spend.""",
        {
            "--accept POPULATION...": """the newest journal is lost: go on from this one, on your
            word that nothing was asked since it was copied; if that is wrong, people can lose more
            than the limit"""
        },
    ),
    "requests": Command("list what owners asked for in the browser"),
    "confirm": Command(
        "run a request that an owner made in the browser",
        """Show what an owner asked for in the browser, in words and as a command line, and run that
        command once you typed yes. Whoever controls the web server can ask for anything: confirm
        only what you read here and want.""",
        {"digest ID": "as `requests` shows it", "--drop": "forget it instead"},
    ),
    "audit-verify": Command(
        "check an audit log against the journals, and what every person has lost",
        """Check the audit log of the store, or of a file that `qserver audit export` wrote, as
        `qserver audit verify` does. Then hold its charges against the worker's journals, and let an
        accountant that shares no code with the ledger recompute what every person has lost. It
        reads the journals and the log only, so it also works on copies of both.""",
        {"file [FILE]": "default: the store"},
    ),
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; `command` of what it parses is the name of one."""
    parser = argparse.ArgumentParser(
        prog="qserver-worker",
        description="The trusted side of qserver: the only program that sees private rows.",
        epilog="Exit codes: 0 success, 1 failure (the message says why), 2 wrong usage, 3 `append "
        "--strict` found something and sealed nothing.",
    )
    parser.add_argument("--version", action="version", version=qserver.__version__)
    _add_commands(COMMANDS, parser, dest="command")
    return parser


def _add_commands(
    commands: Mapping[str, Command], to: argparse.ArgumentParser, *, dest: str
) -> None:
    found = to.add_subparsers(dest=dest, required=True, metavar=dest.upper())
    for name, command in commands.items():
        parser = found.add_parser(name, help=command.brief)
        parser.description = _one_line(command.about) or None
        if command.actions:
            _add_commands(command.actions, parser, dest="action")
        else:
            _add_arguments({**_COMMON, **command.arguments}, parser)


def _add_arguments(arguments: Arguments, to: argparse._ActionsContainer) -> None:
    for name, about in arguments.items():
        name, must, _ = name.partition("!")
        if isinstance(about, str):
            flag, _, unit = name.partition(" ")
            to.add_argument(*flag.split("/"), **_read_as(flag, unit, about, must=bool(must)))
        else:
            _add_arguments(about, to.add_mutually_exclusive_group(required=bool(must)))


def _read_as(flag: str, unit: str, about: str, *, must: bool) -> dict[str, Any]:
    """The arguments of argparse for an argument."""
    word, shown, is_option = flag.strip("-"), unit.strip("[.]"), flag[0] == "-"
    found: dict[str, Any] = {"help": _one_line(about), "metavar": shown or None}
    if word in _CHOICES:
        found["choices"] = _CHOICES[word]
    elif is_option and not unit:
        return {"help": found["help"], "action": "store_true"}
    reader = found["type"] = _READERS.get(shown)
    if unit.endswith("..."):
        found |= {"action": "append", "default": []}
    elif is_option:
        usual = None if reader or word in _CHOICES else ""
        found |= {"default": _USUAL.get(word, usual), "required": must}
    elif unit.startswith("["):
        found["nargs"] = "?"
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())

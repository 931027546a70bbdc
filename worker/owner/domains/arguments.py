"""The arguments of `qserver-worker domain`."""

from __future__ import annotations

import argparse
from pathlib import Path

from worker.sources.typed import add_source

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

"""Where data lie, as the owner types it: the arguments of several commands."""

from __future__ import annotations

import argparse

from worker.sources.address import Address

_SOURCE_HELP = """\
a path (.csv, .tsv, also .gz or .zst, .parquet, a folder of these), s3://BUCKET/KEY,
sqlite:///PATH, duckdb:///PATH, postgresql://USER:{env:NAME}@HOST/DB, adbc:DRIVER,
spark://HOST:PORT or spark-connect://HOST:PORT. A secret is never typed: {env:NAME} stands for an
environment variable, {file:PATH} for what is in a file
"""
_CODES_HELP = """\
with a Spark source: code and count there, and keep the codes as Parquet in a new folder below this
one, which all of Spark's machines reach, such as s3a://BUCKET/codes; without it the codes are
sealed on this machine, as of every source
"""
_SLOT_HELP = """\
with --codes: seconds that the count of one row or table takes at most, a public number. Answers
take whole slots, so that their time does not tell how many records there are
"""
_QUERY_HELP = "or the SELECT whose rows are the records; it may join tables"
_OPTION_HELP = "for an adbc:DRIVER, such as uri=..., or Spark; may be given several times"


def add_source(parser: argparse.ArgumentParser, *, what: str, required: bool = True) -> None:
    """Add the arguments that say where data lie.

    Args:
        what: what the data are for, as the help says it.
    """
    where = parser.add_mutually_exclusive_group(required=required)
    where.add_argument("--source", metavar="URI", help=f"{what}: {_SOURCE_HELP}")
    where.add_argument("--data", metavar="PATH", help="the same, for a file or a folder")
    parser.add_argument("--table", default="", metavar="T", help="the table of a database")
    parser.add_argument("--query", default="", metavar="SQL", help=_QUERY_HELP)
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help=_OPTION_HELP
    )


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that leave the codes on Spark."""
    parser.add_argument("--codes", default="", metavar="URI", help=_CODES_HELP)
    parser.add_argument("--slot", type=float, metavar="SECONDS", help=_SLOT_HELP)


def address_of(arguments: argparse.Namespace) -> Address:
    """The address that was typed; ConfigError if it is none."""
    text = arguments.source or arguments.data
    return Address(text, arguments.table, arguments.query, tuple(arguments.option))

"""Where data lie, as the owner types it: the arguments of several commands."""

from __future__ import annotations

import argparse

from worker.sources.address import Address

_SOURCE_HELP = """\
a path (.csv, .tsv, also .gz or .zst, .parquet, a folder of .parquet), s3://BUCKET/KEY,
sqlite:///PATH, duckdb:///PATH, postgresql://USER:{env:NAME}@HOST/DB, or adbc:DRIVER. A secret is
never typed: {env:NAME} stands for an environment variable, {file:PATH} for what is in a file
"""
_QUERY_HELP = "or the SELECT whose rows are the records; it may join tables"
_OPTION_HELP = "for an adbc:DRIVER, such as uri=...; may be given several times"


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


def address_of(arguments: argparse.Namespace) -> Address:
    """The address that was typed; ConfigError if it is none."""
    text = arguments.source or arguments.data
    return Address(text, arguments.table, arguments.query, tuple(arguments.option))

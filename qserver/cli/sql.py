"""`qserver sql`: ask a statement of SQL, or show its price."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from qserver.cli.console import Console
from qserver.cli.questions import show_choices, show_protected, show_remaining, unpayable
from qserver.cli.remote_commands import add_fields, add_server_options, given, url_of
from qserver.cli.runtime import Commands, ExitCode, Runtime
from qserver.errors import ConfigError
from qserver.query import request_fields as fields
from qserver.query.sql.text import MAX_CHARACTERS, explains
from qserver.text import most_text, price_text

if TYPE_CHECKING:
    from qserver.client import Price, Table

_TEXT = """\
Ask a statement of SQL and show the table that answers it. The dataset is the one behind FROM.

  qserver sql "SELECT sex, COUNT(*) FROM adult GROUP BY sex WITHIN 100 CONFIDENCE 0.95"

WITHIN is half the length of each interval. EXPLAIN before it, or --explain, shows the price and
spends nothing. docs/sql.md has the language.
"""


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `sql` to the command line."""
    parser = commands.add_parser(
        "sql",
        help="ask a statement of SQL",
        description=_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", metavar="TEXT", help="the statement; - reads it")
    add_fields(
        parser,
        fields.MEASURE,
        fields.AS_OF,
        fields.WITHIN,
        fields.SURE,
        fields.SPEND,
        fields.EXPLAIN,
    )
    add_server_options(parser, runtime, run_sql, has_rows=True)


def run_sql(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Ask, or show the price."""
    from qserver.client.clients import Client

    text = sys.stdin.read(MAX_CHARACTERS + 1) if args.text == "-" else args.text
    if not text.strip():
        raise ConfigError("TEXT", "hold a statement of SQL")
    client = Client(
        url_of(args),
        token=runtime.token,
        timeout_s=args.timeout,
        wait_s=args.timeout,
        sleep=runtime.sleep,
    )
    said = given(args, *fields.STATEMENT)
    if args.explain or explains(text):
        if args.csv:
            raise ConfigError("--csv", "not come with a price; --json has it")
        with runtime.console.progress("Waiting for the price"):
            price = client.price(text, **said)
        _show_price(runtime.console, price, as_json=args.json)
        return ExitCode.OK
    with runtime.console.progress("Waiting for the answer"):
        table = client.sql(text, **said, spend=args.spend)
    if args.csv:
        columns = table.frame()
        rows = zip(*(column.values for column in columns), strict=True)
        runtime.console.csv([column.name for column in columns], rows)
    else:
        _show_table(runtime.console, table, as_json=args.json)
    return ExitCode.OK


def _show_table(console: Console, table: Table, *, as_json: bool) -> None:
    if as_json:
        rows = [{k: _finite(v) for k, v in record.items()} for record in table.records()]
        console.json(
            {
                "rows": rows,
                "confidence": table.confidence,
                "simultaneous": table.simultaneous,
                "epsilon_charged": table.cost.charged,
                "epsilon_remaining": table.cost.remaining,
                **_at(table.cost.delta),
                "as_of": table.as_of,
                "remarks": list(table.remarks),
            }
        )
        return
    console.table(table.header(), list(table.texts()))
    console.aside()
    for note in table.notes():
        console.aside(note)
    if table.as_of:
        console.aside(f"counted up to {table.as_of}")


def _show_price(console: Console, price: Price, *, as_json: bool) -> None:
    own = None if price.own is None else asdict(price.own)
    if as_json:
        console.json(
            {
                "price": price.price,
                "most": price.most,
                "at_most": price.at_most,
                "whole_table": price.whole_table,
                "remaining": price.remaining,
                **_at(price.delta),
                "kind": price.kind,
                "measure": None if price.measure is None else asdict(price.measure),
                "own": own,
                "protected": price.protected,
                "remarks": list(price.remarks),
            }
        )
        return
    fits = unpayable(price.price, price.remaining, price.affordable)
    most = "up to about " if price.at_most else ""
    said = f"{price_text(price.price, price.kind)}{most_text(price.price, price.most)}"
    console.line(f"price: {most}{said}{fits}")
    if price.whole_table:
        console.line("that is for the whole table; which rows are shown follows from its numbers")
    for remark in price.remarks:
        console.line(remark)
    show_protected(console, price.protected)
    show_choices(console, None if price.measure is None else asdict(price.measure))
    show_remaining(console, {"remaining": price.remaining, "own": own, "delta": price.delta})
    known = [str(interval) for interval in price.free if interval is not None]
    shown = "; ".join(known[:6]) + (f" and {len(known) - 6} more" if len(known) > 6 else "")
    console.line(f"known at no cost: {shown or 'nothing yet'}")


def _at(delta: float | None) -> dict[str, float]:
    """A member that replies have under zcdp alone."""
    return {} if delta is None else {"delta": delta}


def _finite(value: Any) -> Any:
    """The value; None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

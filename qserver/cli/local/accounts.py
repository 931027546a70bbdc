"""`qserver account`: the owner creates accounts, and sets their roles and allowances."""

from __future__ import annotations

import argparse
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

from qserver.cli.console import epsilon_text
from qserver.cli.runtime import Commands, ExitCode, Runtime, add_store_options, store_settings
from qserver.errors import ConfigError
from qserver.query.exact_numbers import exact_number
from qserver.records.account import ROLES, Allowance
from qserver.text import at_delta

if TYPE_CHECKING:
    from qserver.storage.accounts import AccountBook
    from qserver.storage.wishes import Wishes

_NANO = 10**9
_ACCOUNT = """\
Accounts of a store. A token is shown once, when it is made; the store keeps a slow hash of it. A
name is never given twice, since charges carry it. A change takes effect within a second. With
single sign-on `GROUP/` is a group of the identity provider, and `GROUP/NAME` one of its members.
"""
_LET_IN = """\
Let in everybody whom the identity provider has in a group, `GROUP/`: each is the account
`GROUP/NAME`, made at the first sign-in. `account allow GROUP/` bounds what they spend together.
A member that was revoked is let in again by `GROUP/NAME`.
"""
_ALLOW = """\
Bound what an account may spend of a population's budget, within the population's own limit: in all,
and within any 24 hours. A bound that you leave out is not set. The worker refuses an answer that
would pass a bound.
"""
_CONFIRM = """\
Show what an owner asked for in the browser, in words and as a command line, and run that command
once you typed yes. Whoever controls the web server can ask for anything: confirm only what you read
here and want.
"""


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `account` to the command line."""
    account = commands.add_parser("account", help="who may ask", description=_ACCOUNT)
    kinds = account.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = kinds.add_parser("create", help="make an account and show its token")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--role", choices=ROLES, required=True, help="owners also read the audit")
    listing = kinds.add_parser("list", help="show the accounts")
    shape = listing.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")
    renew = kinds.add_parser("renew", help="replace the token; the old one stops working")
    let_in = kinds.add_parser("let-in", help="let in a group of the provider", description=_LET_IN)
    revoke = kinds.add_parser("revoke", help="end an account's token, or shut out GROUP/NAME")
    allow = kinds.add_parser("allow", help="set what an account may spend", description=_ALLOW)
    requests = kinds.add_parser("requests", help="list what owners asked for in the browser")
    confirm = kinds.add_parser("confirm", help="carry out an owner's request", description=_CONFIRM)
    confirm.add_argument("digest", metavar="ID", help="as `requests` shows it")
    confirm.add_argument("--drop", action="store_true", help="forget it instead")
    let_in.add_argument("--role", choices=ROLES, default="analyst", help="of the group's members")
    for parser in (renew, let_in, revoke, allow):
        parser.add_argument("name", metavar="NAME")
    allow.add_argument("--population", required=True, metavar="P", help="whose budget")
    allow.add_argument("--limit", metavar="E", help="most in all, in epsilon")
    allow.add_argument("--per-day", metavar="E", help="most within any 24 hours, in epsilon")
    runs = (
        (create, run_create),
        (listing, run_list),
        (renew, run_renew),
        (let_in, run_let_in),
        (revoke, run_revoke),
        (allow, run_allow),
        (requests, run_requests),
        (confirm, run_confirm),
    )
    for parser, run in runs:
        add_store_options(parser, runtime)
        parser.set_defaults(run=run)


def run_create(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Make an account."""
    _show_token(runtime, _book(args, runtime).create(args.name, args.role).text)
    return ExitCode.OK


def run_renew(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Replace an account's token."""
    _show_token(runtime, _book(args, runtime).renew(args.name).text)
    return ExitCode.OK


def run_let_in(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Let in a group of the provider, or a member again."""
    _book(args, runtime).let_in(args.name, args.role)
    runtime.console.line(f"{args.name} may sign in ({args.role}).")
    return ExitCode.OK


def run_revoke(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """End an account's token."""
    _book(args, runtime).revoke(args.name)
    runtime.console.line(f"{args.name} can no longer ask.")
    return ExitCode.OK


def run_list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show all accounts, with the allowance of each for every population."""
    book = _book(args, runtime)
    deltas, rows = book.deltas(), []
    for account in book.accounts():
        state = "in force" if account.token_id else "revoked"
        bounds = "; ".join(
            f"{population}: {text}"
            for population, delta in sorted(deltas.items())
            if (text := _allowance_text(book.allowance(account.name, population), delta))
        )
        rows.append((account.name, account.role, account.token_id or "-", state, bounds or "-"))
    header = ("account", "role", "token id", "token", "allowance")
    if args.json:
        runtime.console.json([dict(zip(header, row, strict=True)) for row in rows])
    elif args.csv:
        runtime.console.csv(header, rows)
    else:
        runtime.console.table(header, rows)
    return ExitCode.OK


def run_allow(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Set an account's allowance."""
    allowance = Allowance(
        limit_nano=_nano(args.limit, "--limit"), pace_nano=_nano(args.per_day, "--per-day")
    )
    book = _book(args, runtime)
    book.allow(args.name, args.population, allowance)
    text = _allowance_text(allowance, book.deltas()[args.population]) or "no bound of its own"
    runtime.console.line(f"{args.name} on {args.population}: {text}.")
    return ExitCode.OK


def run_requests(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show the requests that wait for confirmation here."""
    found = _wishes(args, runtime).all("qserver")
    for wish in found:
        runtime.console.line(f"{wish.digest}  {wish.words}\n  {wish.line}")
    if not found:
        runtime.console.line("none waits")
    return ExitCode.OK


def run_confirm(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Run a request of an owner, once read and confirmed here."""
    wishes = _wishes(args, runtime)
    wish = wishes.one(args.digest, "qserver")
    if not args.drop:
        runtime.console.note(f"{wish.words}\n  {wish.line}\nType yes to run it:")
        if sys.stdin.readline().strip() != "yes":
            runtime.console.note("Nothing was done.")
            return ExitCode.FAILURE
        parser = argparse.ArgumentParser(prog="qserver")
        register(parser.add_subparsers(required=True), runtime)
        asked = parser.parse_args(wish.argv)
        asked.redis_url, asked.state = args.redis_url, args.state
        code: ExitCode = asked.run(asked, runtime)
        if code != ExitCode.OK:
            return code
    wishes.drop(wish.digest)
    return ExitCode.OK


def _wishes(args: argparse.Namespace, runtime: Runtime) -> Wishes:
    from qserver.storage.wishes import Wishes

    return Wishes.open(store_settings(args, runtime), role="owner")


def _book(args: argparse.Namespace, runtime: Runtime) -> AccountBook:
    from qserver.storage.accounts import AccountBook

    return AccountBook.open(store_settings(args, runtime), role="owner")


def _show_token(runtime: Runtime, text: str) -> None:
    runtime.console.note("This token is shown once. Who has it can ask in the account's name:")
    runtime.console.line(text)


def _nano(text: str | None, name: str) -> int | None:
    """Epsilon as typed, in nano-epsilon rounded down; None if absent."""
    if text is None:
        return None
    value = exact_number(text, name, ConfigError)
    if value < 0:
        raise ConfigError(name, "be >= 0", text)
    return int(value * _NANO)


def _allowance_text(allowance: Allowance, delta: Fraction | None) -> str:
    """An allowance in words; '' if it has no bound."""
    bounds = ((allowance.limit_nano, "in all"), (allowance.pace_nano, "a day"))
    said = [
        f"{epsilon_text(nano / _NANO)} epsilon {how}" for nano, how in bounds if nano is not None
    ]
    return ", ".join(said) + at_delta(delta) if said else ""

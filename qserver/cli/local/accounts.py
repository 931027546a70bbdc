"""`qserver account`: the owner creates accounts, and sets their roles and allowances."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from qserver.cli.console import epsilon_text
from qserver.cli.runtime import Commands, ExitCode, Runtime, add_store_options, store_settings
from qserver.errors import ConfigError
from qserver.query.numbers import exact_number
from qserver.records.account import ROLES, Allowance

if TYPE_CHECKING:
    from qserver.storage.accounts import AccountBook

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
Set what an account may spend of a population's budget, within the population's own limit: in all,
and within any 24 hours. What is not given is without a bound. The worker refuses what passes it.
"""


def register(commands: Commands, runtime: Runtime) -> None:
    """Add `account` to the command line."""
    account = commands.add_parser("account", help="who may ask", description=_ACCOUNT)
    kinds = account.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = kinds.add_parser("create", help="make an account and show its token")
    create.add_argument("name", metavar="NAME")
    create.add_argument("--role", choices=ROLES, required=True, help="owners also read the audit")
    listing = kinds.add_parser("list", help="show the accounts")
    renew = kinds.add_parser("renew", help="show a new token; the one before ends")
    let_in = kinds.add_parser("let-in", help="let in a group of the provider", description=_LET_IN)
    revoke = kinds.add_parser("revoke", help="end an account's token, or shut out GROUP/NAME")
    allow = kinds.add_parser("allow", help="set what an account may spend", description=_ALLOW)
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
    runtime.console.line(f"{args.name} may not ask any more.")
    return ExitCode.OK


def run_list(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Show all accounts, with the allowance of each for every population."""
    book = _book(args, runtime)
    rows = []
    for account in book.accounts():
        state = "in force" if account.token_id else "revoked"
        bounds = "; ".join(
            f"{population}: {text}"
            for population in sorted(book.populations())
            if (text := _allowance_text(book.allowance(account.name, population)))
        )
        rows.append((account.name, account.role, account.token_id or "-", state, bounds or "-"))
    runtime.console.table(("account", "role", "token id", "token", "allowance"), rows)
    return ExitCode.OK


def run_allow(args: argparse.Namespace, runtime: Runtime) -> ExitCode:
    """Set what an account may spend."""
    allowance = Allowance(
        limit_nano=_nano(args.limit, "--limit"), pace_nano=_nano(args.per_day, "--per-day")
    )
    _book(args, runtime).allow(args.name, args.population, allowance)
    text = _allowance_text(allowance) or "no bound of its own"
    runtime.console.line(f"{args.name} on {args.population}: {text}.")
    return ExitCode.OK


def _book(args: argparse.Namespace, runtime: Runtime) -> AccountBook:
    from qserver.storage.accounts import AccountBook

    return AccountBook.open(store_settings(args, runtime), role="owner")


def _show_token(runtime: Runtime, text: str) -> None:
    runtime.console.note("This token is shown once. Who has it can ask in the account's name:")
    runtime.console.line(text)


def _nano(text: str | None, name: str) -> int | None:
    """Epsilon as typed, in nano-epsilon rounded down; None if it was not given."""
    if text is None:
        return None
    value = exact_number(text, name, ConfigError)
    if value < 0:
        raise ConfigError(name, "be >= 0", text)
    return int(value * _NANO)


def _allowance_text(allowance: Allowance) -> str:
    """An allowance in words; '' if it has no bound."""
    bounds = ((allowance.limit_nano, "in all"), (allowance.pace_nano, "a day"))
    return ", ".join(
        f"{epsilon_text(nano / _NANO)} epsilon {how}" for nano, how in bounds if nano is not None
    )

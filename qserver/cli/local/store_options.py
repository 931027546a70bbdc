"""The options that name a store, and the settings that follow from them."""

from __future__ import annotations

import argparse
from pathlib import Path

from qserver.cli.runtime import Runtime
from qserver.config import Settings

REDIS_HELP = "unix://, redis:// or rediss:// address of the store"


def add_store_options(parser: argparse.ArgumentParser, runtime: Runtime) -> None:
    """Add `--redis-url` and `--state`, for the owner's commands on a store."""
    parser.add_argument("--redis-url", metavar="URL", help=REDIS_HELP)
    default = runtime.default_state_dir
    shown = str(default).replace("%", "%%")
    parser.add_argument(
        "--state",
        type=Path,
        default=default,
        metavar="DIR",
        help="folder of a store of ours that runs; without it and --redis-url the store is that "
        f"of QSERVER_REDIS_URL, or of the demo ({shown})",
    )


def store_settings(args: argparse.Namespace, runtime: Runtime, **more: object) -> Settings:
    """The settings for the store that the options or the environment name, with `more` settings.

    The store may not be running; opening it will tell.
    """
    named = args.redis_url
    if named is None and args.state == runtime.default_state_dir:
        named = runtime.environ.get("QSERVER_REDIS_URL")
    return Settings.from_environment(
        runtime.environ, redis_url=named or "", state_dir=args.state.absolute(), **more
    )

"""Campaigns by hand: `python -m tests.faults kills --seed 1 --kills 200`; a JSON report."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults import failovers, kills, races, restarts


def main() -> int:
    """Run one campaign; 0 when everything held."""
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = arguments.run(arguments, Path(folder))
    json.dump(report, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if report.get("faults") else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(dest="campaign", required=True)
    one = commands.add_parser("kills", help="kill processes at every step of spends")
    one.add_argument("--kills", type=int, default=200)
    one.add_argument("--clients", type=int, default=8)
    one.add_argument("--victims", nargs="+", choices=sorted(set(kills.VICTIMS)))
    one.set_defaults(run=_kills)
    one = commands.add_parser("identical", help="all clients ask one question at once")
    one.add_argument("--clients", type=int, default=500)
    one.set_defaults(run=_identical)
    one = commands.add_parser("different", help="all clients ask more than the limit can pay")
    one.add_argument("--clients", type=int, default=500)
    one.set_defaults(run=_different)
    one = commands.add_parser("fairness", help="one dataset's questions beside another's flood")
    one.add_argument("--flood", type=int, default=400)
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--shared", action="store_true", help="both are of one population")
    one.set_defaults(run=_fairness)
    one = commands.add_parser("failovers", help="let sentinels elect another primary under load")
    one.add_argument("--failovers", type=int, default=100)
    one.add_argument("--clients", type=int, default=2)
    one.set_defaults(run=_failovers)
    one = commands.add_parser("restarts", help="kill a process of a demo every so many seconds")
    one.add_argument("--every", type=float, default=3.6)
    one.add_argument("--seconds", type=float, default=320.0)
    one.add_argument("--victims", nargs="*", choices=["all", *restarts.PARTS], default=["worker"])
    one.set_defaults(run=_restarts)
    return parser


def _kills(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return kills.run(
        folder,
        seed=arguments.seed,
        n_kills=arguments.kills,
        n_clients=arguments.clients,
        victims=arguments.victims or kills.VICTIMS,
    ).plain()


def _identical(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with races.race_site(folder) as site:
        return asdict(races.identical(site, n_clients=arguments.clients))


def _different(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with races.race_site(folder) as site:
        return asdict(races.different(site, n_clients=arguments.clients, seed=arguments.seed))


def _fairness(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    found = races.fairness(
        folder, n_flood=arguments.flood, shared=arguments.shared, n_workers=arguments.workers
    )
    return asdict(found)


def _failovers(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return failovers.run(
        folder,
        seed=arguments.seed,
        n_failovers=arguments.failovers,
        n_clients=arguments.clients,
    ).plain()


def _restarts(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return restarts.run(
        folder,
        seed=arguments.seed,
        every_s=arguments.every,
        seconds=arguments.seconds,
        victims=arguments.victims,
    ).plain()


if __name__ == "__main__":
    sys.exit(main())

"""What is made from the code, by the path of its file below docs/."""

from __future__ import annotations

from docs.command_reference import command_reference
from docs.figures import figures
from qserver.cli.console import Console
from qserver.cli.main import build_parser
from qserver.cli.runtime import Runtime
from worker.cli import build_parser as worker_parser


def pages() -> dict[str, str]:
    """Texts by file name, relative to docs/."""
    runtime = Runtime(console=Console(out=None, err=None), environ={})  # type: ignore[arg-type]
    return {
        "cli.md": command_reference([build_parser(runtime), worker_parser()]),
        **{f"figures/{name}": text for name, text in figures().items()},
    }

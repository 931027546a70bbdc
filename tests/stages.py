"""Two stages: `pytest -m fast`, which stays in its own process, and everything.

Fast is what reads, parses and computes. What starts a store, a server of its own or a program is
not, nor what repeats a thing until chance would show: `slow` marks the long calculations among
the rest. A test is told by its kind, never by how long it took.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qserver.storage.server.embedded_store import EmbeddedServer

TESTS = Path(__file__).parent
WHOLE = ("benchmarks", "browser", "faults", "hostile", "privacy", "statistical")
"""Folders of many processes, or of many draws."""
STARTERS = (subprocess, EmbeddedServer)
"""Who imports one of these into a module of tests starts programs there."""
STORE = "store_server"


def is_fast(item: pytest.Function) -> bool:
    """Whether a test belongs to the first stage."""
    folder = item.path.relative_to(TESTS).parts[0]
    starts = any(value is s for value in vars(item.module).values() for s in STARTERS)
    return (
        folder not in WHOLE
        and not starts
        and STORE not in item.fixturenames
        and item.get_closest_marker("slow") is None
    )


def is_shared_out(config: pytest.Config) -> bool:
    """Whether a run takes a process for each core: a part of the tests is quickest in one."""
    option = config.option
    is_chosen = option.collectonly or option.keyword or option.usepdb
    return (
        config.pluginmanager.has_plugin("xdist")
        and not hasattr(config, "workerinput")  # which is one of those processes already
        and config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and not is_chosen
        and option.numprocesses is None
    )

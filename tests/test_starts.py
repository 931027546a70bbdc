"""What a process loads when it starts, by count: a package that it does not use costs it nothing.

Times would depend on the machine. What is named here took 15 to 250 ms of the processor each.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qserver.program.start import loading

HEAVY = {
    *("asyncio", "duckdb", "flask", "numpy", "pandas", "pyarrow", "pydantic", "redis", "scipy"),
    *("sqlglot", "urllib3", "qserver.client", "qserver.inference", "qserver.models.marginals"),
    *("worker.coding.coder", "scipy.stats"),
}
"""Packages that load long, ours too."""

SHOWN = """
import contextlib, io, os, sys
def shown(start):
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        with open(read) as pipe:
            print(" ".join(pipe.read().split()), flush=True)
        os.wait()
        return
    with open(write, "w") as pipe, contextlib.redirect_stdout(io.StringIO()):
        with contextlib.suppress(SystemExit):
            start()
        pipe.write(" ".join(sys.modules))
    os._exit(0)
"""
"""`shown(start)` prints what is loaded after a call of `start`, in a process of its own."""


def loaded(*starts: str) -> list[set[str]]:
    """The heavy packages that are loaded after each statement, of one fresh interpreter each."""
    calls = "\n".join(f"shown(lambda: exec({start!r}))" for start in starts)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SHOWN + calls]
    lines = subprocess.check_output(command, text=True, env=environment).splitlines()
    assert len(lines) == len(starts)
    return [HEAVY & set(line.split()) for line in lines]


def test_help_of_both_programs_loads_no_numerics_engines_or_clients() -> None:
    worker, server, control = loaded(
        "from worker.cli import main; main(['--help'])",
        "from qserver.cli.main import main; main(['query', '--help'])",
        "import asyncio",  # the check can fail
    )
    assert worker == server == set()
    assert control == {"asyncio"}


@pytest.mark.slow
def test_a_worker_that_waits_and_an_attach_load_only_what_they_use() -> None:
    """A worker that reads seals needs no readers of files; `attach` needs no inference."""
    waiting, attaching, setting = loaded(
        "import worker.main_loop", "import worker.owner.attach", "import worker.owner.changes"
    )
    stores = {"asyncio", "numpy", "redis"}  # redis loads asyncio
    assert setting == stores
    assert waiting == {*stores, "scipy", "qserver.inference"}
    assert attaching == {*stores, "duckdb", "pyarrow", "worker.coding.coder"}


AVERAGE = """
import numpy
from qserver.inference.smooth.part_law import PartLaw
from qserver.records.privacy.noise_law import LAPLACE
PartLaw.of_scales(numpy.zeros(30), numpy.ones(30), LAPLACE, seed=1)
"""


@pytest.mark.slow
def test_the_draws_of_a_first_average_load_no_library_of_statistics() -> None:
    """It takes as long as all else that the answer needs."""
    drawing, control = loaded(AVERAGE, "import scipy.stats")
    assert drawing == {"numpy", "scipy", "qserver.inference"}
    assert "scipy.stats" in control


READING = """
from pathlib import Path
from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.query.domain_loading import load_domain
from worker.private.snapshot import read_snapshot
read_snapshot(adult_csv(), load_domain(adult_domain()), key=b"k" * 32, folder=Path("."))
"""


@pytest.mark.slow
def test_a_read_without_persons_loads_no_pandas_as_arrow_may_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes half as long as all that is done with 30,000 records, and 40 MB."""
    monkeypatch.chdir(tmp_path)
    reading, control = loaded(READING, "import pyarrow; pyarrow.array([])")
    assert reading >= {"duckdb", "pyarrow"}
    assert "pandas" not in reading
    assert "pandas" in control


def test_code_loads_without_the_collector_which_runs_again_after_a_failure_too() -> None:
    ran = []
    try:
        with contextlib.suppress(ImportError), loading():
            ran.append(gc.isenabled())
            raise ImportError
        ran.append(gc.isenabled())
        assert ran == [False, True]
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()

"""Stages: `pytest -m fast`, whose tests start no program; everything; and those of `OF_STAGES`.

Fast is what reads, parses and computes a little. What starts a store or a program is not, nor
what plays streams of questions, fits models or draws until chance would show. A test is told by
its kind, here, and never by how long it took.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qserver.storage.server.embedded_store import EmbeddedServer

TESTS = Path(__file__).parent
NOT_FAST = (
    # Many processes, or many draws.
    "benchmarks/",
    "browser/",
    "cli/processes/",
    "faults/",
    "hostile/",
    "privacy/",
    "statistical/",
    "worker/noise/test_mechanism.py",
    "worker/noise/test_refinement_chains.py",
    "worker/private/test_reading.py",
    "worker/private/test_tables.py",
    "worker/spending/test_cell_chains.py",
    "worker/spending/test_forged_plans.py",
    "worker/spending/test_rehearsal.py",
    # Whole programs within a test: a type checker, HTTP under fuzz, another database.
    "api/test_http_fuzz.py",
    "client/test_types.py",
    "query/sql/test_against_duckdb.py",
    "test_reached.py",
    # Many draws of input.
    "inference/law/test_evaluators.py",
    "query/sql/test_parts.py",
    "query/sql/test_questions.py",
    "query/test_numbers.py",
    # Histories that grow row by row, held to exact fractions or to searches over a grid.
    "inference/joint/test_quotient.py",
    "inference/posterior/test_cut.py",
    "inference/corners/test_grown.py",
    "inference/corners/test_weights.py",
    "inference/rows/test_refinement.py",
    "inference/rows/test_tail.py",
    "ledger/test_ledger.py",
    "ledger/test_ledger_tables.py",
    "ledger/test_ledger_wide.py",
    "ledger/test_own_ledger.py",
    # Models that are fitted.
    "cli/test_plot.py",
    "models/marginals/test_marginal_likeliest.py",
    "models/marginals/test_marginal_estimates.py",
    "models/marginals/test_marginal_limits.py",
    "models/marginals/test_warm_starts.py",
    "models/network/test_learning.py",
    "models/tracing/test_structure_proposal.py",
    "models/tracing/test_tracing_attack.py",
    # Streams of questions and whole workloads.
    "planning/test_competitive_ratio.py",
    "planning/test_direct_plans.py",
    "planning/test_effort.py",
    "planning/test_learnt_plans.py",
    "planning/test_many_attributes.py",
    "planning/test_planned_chains.py",
    "planning/test_refined_plans.py",
    "planning/test_rent_or_buy.py",
    "planning/test_search.py",
    "planning/test_star.py",
    "planning/test_together.py",
    "planning/test_uneven.py",
    "planning/test_workload.py",
    "planning/test_workload_levels.py",
)
"""Folders and files below this one."""
OF_STAGES = {"test_engines.py": "engines", "test_tools.py": "tools", "test_on_spark.py": "spark"}
"""Files of tests that need other engines, or other programs' clients: stages of their own."""
STARTERS = (subprocess, EmbeddedServer)
"""Who imports one of these into a module of tests starts programs there."""
STORE = "store_server"


def may_be_fast(path: Path) -> bool:
    """Whether a file or folder may hold tests of the first stage."""
    name = path.relative_to(TESTS).as_posix() + "/" * path.is_dir()
    return not name.startswith(NOT_FAST)


def is_fast(item: pytest.Function) -> bool:
    """Whether a test belongs to the first stage."""
    starts = any(value is s for value in vars(item.module).values() for s in STARTERS)
    return may_be_fast(item.path) and not starts and STORE not in item.fixturenames


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

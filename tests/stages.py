"""Stages of the tests: what is not slow, by default; `-m slow`; and those of `OF_STAGES`.

A stage of slow tests makes one in three of what a test is made for: seeds of streams, steps at
which a program dies, draws of brute force. `pytest --whole` makes all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

from tests.sweeps import every_nth

NOT_SLOW = "not slow"
"""What pytest's own option `-m` is set to in pyproject.toml; another `-m` takes its place."""
OF_STAGES = {
    "test_chart.py": "chart",
    "test_engines.py": "engines",
    "test_on_spark.py": "spark",
    "test_tools.py": "tools",
}
"""Files of tests that need other engines, or other programs' clients: stages of their own."""
_ONE_IN = 3


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


def n_processes() -> int:
    """One more than cores: tests that start programs wait a quarter of their time."""
    return (os.cpu_count() or 1) + 1


def left_out_of_slow(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Two in three of the slow cases of each test that has several."""
    cases = dict[tuple[object, str], list[pytest.Item]]()
    for item in items:
        if item.get_closest_marker("slow") is not None:
            name = getattr(item, "originalname", item.name)
            cases.setdefault((item.parent, name), []).append(item)
    return {
        item
        for of_one in cases.values()
        for item in set(of_one) - set(every_nth(of_one, _ONE_IN, of=of_one[0].nodeid))
    }

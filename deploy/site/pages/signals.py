"""signals.md: settings, metrics and refusals, read off the code that has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

from prometheus_client import Counter

from qserver.api.errors import KINDS
from qserver.api.metrics import PROBLEMS, REQUESTS, SECONDS
from qserver.cli.local.exporter import GAUGES, STORE_READY
from qserver.cli.runtime import EXIT_CODES_HELP
from qserver.config import Settings
from qserver.service.datasets import PLANNING_FAULTS

_HEAD = """\
# Settings, metrics and refusals

Made from the code when the site is built.
"""


def signals_page() -> str:
    """The page, as Markdown."""
    refusals = (f"| `{k.code}` | {k.status} | {k.title} |" for k in KINDS.values())
    return "\n".join(
        [
            _HEAD,
            "## Settings\n\nOf the server and the worker, from the environment.\n",
            _table(("variable", "unless set", "is"), _settings()),
            "## Metrics\n\nOf `qserver metrics`; the HTTP processes count where",
            "`QSERVER_METRICS_DIR` is set.\n",
            _table(("metric", "labels", "is"), _metrics()),
            "## Refusals\n\nOver HTTP; [what else a problem says](http.md#problems).\n",
            _table(("code", "status", "meaning"), refusals),
            f"## Exit codes\n\n```text\n{EXIT_CODES_HELP.strip()}\n```\n",
        ]
    )


def _table(heads: tuple[str, str, str], rows: Iterator[str]) -> str:
    return "\n".join(["| " + " | ".join(heads) + " |", "|---|---|---|", *rows, ""])


def _settings() -> Iterator[str]:
    """One line for each setting, with what the docstring of `Settings` says of it."""
    about = re.split(r"\n {8}(?=[a-z_, ]+: )", (Settings.__doc__ or "").split("Args:")[1])
    meanings = {name.strip(): text for names, text in map(_halves, about) for name in names}
    default = Settings()
    for item in fields(Settings):
        value = getattr(default, item.name)
        shown = (
            f"`{int(value) if isinstance(value, bool) else value}`" if value != "" else "nothing"
        )
        yield f"| `QSERVER_{item.name.upper()}` | {shown} | {meanings[item.name]} |"


def _halves(text: str) -> tuple[list[str], str]:
    names, _, meaning = text.partition(": ")
    return names.split(","), re.sub(r"\s+", " ", meaning).strip()


def _metrics() -> Iterator[str]:
    for counter in (REQUESTS, PROBLEMS, PLANNING_FAULTS):
        yield _counted(counter)
    yield f"| `{SECONDS[0]}` | route, le | {SECONDS[1]} |"
    yield f"| `{STORE_READY[0]}` | | {STORE_READY[1]} |"
    for name, text, _ in GAUGES:
        yield f"| `qserver_{name}` | population | {text} |"


def _counted(counter: Counter) -> str:
    [family] = counter.describe()
    labels = ", ".join(counter._labelnames)
    return f"| `{family.name}_total` | {labels} | {family.documentation} |"

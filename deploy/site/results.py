"""Hook of the site: adds a page with the full tables of all benchmarks, made from their results."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.results import results_page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of docs/ and this one."""
    files.append(File.generated(config, "results.md", content=results_page()))
    return files

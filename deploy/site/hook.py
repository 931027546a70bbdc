"""Hook of the site: adds the pages that are made from the code and from kept results."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))

from deploy.site.pages.made import made


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/ and these."""
    for name, text in made().items():
        files.append(File.generated(config, name, content=text))
    return files

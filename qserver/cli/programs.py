"""How our programs are typed here: hints are pasted, and `.venv/bin` is rarely on the path."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

# A command within a sentence.
_COMMAND = re.compile(r"`(qserver(?:-worker)?)(?= [a-z])")


@dataclass(frozen=True)
class Programs:
    """The programs beside the one that runs.

    Args:
        started: the path by which this one was started, or '' where that is not known.
        interpreter: of Python, beside which programs are installed.
        search_path: folders in which a shell looks, as in PATH.
    """

    started: str = ""
    interpreter: str = ""
    search_path: str = ""

    @classmethod
    def of(cls, started: str, environ: Mapping[str, str]) -> Programs:
        """The programs of a process with this environment."""
        return cls(started, sys.executable if started else "", environ.get("PATH", ""))

    def typed(self, name: str) -> str:
        """What to type for a program: its name, where a shell finds this very one; else its path.

        The path is that of the running program's folder, or where Python ran it as a module of
        Python's; it is quoted for a shell.
        """
        places = (Path(at).with_name(name) for at in (self.started, self.interpreter) if at)
        beside = next(filter(Path.is_file, places), None)
        if beside is None:
            return name
        found = shutil.which(name, path=self.search_path) if self.search_path else None
        if found is not None and Path(found).samefile(beside):
            return name
        text = str(beside)
        # A bare name would be looked for on the path.
        return quote(text if "/" in text else f"./{text}")

    def spelt(self, text: str) -> str:
        """A sentence whose commands in backquotes can be typed."""
        return _COMMAND.sub(lambda found: f"`{self.typed(found[1])}", text)

"""How to type our programs in hints, ready to paste: `.venv/bin` is rarely on the path."""

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
    """Our programs in the folder of the one that runs.

    Args:
        started: the path that started this program, or '' if unknown.
        interpreter: path of Python, whose folder has the installed programs.
        search_path: folders that a shell searches, as in PATH.
    """

    started: str = ""
    interpreter: str = ""
    search_path: str = ""

    @classmethod
    def of(cls, started: str, environ: Mapping[str, str]) -> Programs:
        """The programs of a process with this environment."""
        return cls(started, sys.executable if started else "", environ.get("PATH", ""))

    def typed(self, name: str) -> str:
        """What to type for a program: its name if a shell finds this very program, else its path.

        The path is in the folder of the running program or, for a module that Python runs, in the
        folder of Python. It is quoted for a shell.
        """
        places = (Path(at).with_name(name) for at in (self.started, self.interpreter) if at)
        beside = next(filter(Path.is_file, places), None)
        if beside is None:
            return name
        found = shutil.which(name, path=self.search_path) if self.search_path else None
        if found is not None and Path(found).samefile(beside):
            return name
        text = str(beside)
        # A shell would search the path for a bare name.
        return quote(text if "/" in text else f"./{text}")

    def spelt(self, text: str) -> str:
        """The sentence, with its commands in backquotes as they can be typed."""
        return _COMMAND.sub(lambda found: f"`{self.typed(found[1])}", text)

"""A plot as a notebook shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from qserver.errors import ConfigError


@dataclass(frozen=True)
class Plot:
    """An SVG document; a notebook shows it, `save` writes it."""

    title: str
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write it to a file; replaces an existing one.

        Raises:
            ConfigError: the name does not end in .svg, or the file cannot be written.
        """
        place = Path(path)
        if place.suffix.lower() != ".svg":
            raise ConfigError("path", "end in .svg", place.name)
        try:
            place.write_text(self.svg, encoding="utf-8")
        except OSError as exc:
            raise ConfigError("path", f"be a file that can be written ({exc.strerror})") from exc

"""Write a plot to a file."""

from __future__ import annotations

from pathlib import Path

from qserver.errors import ConfigError


def write_svg(path: Path, text: str) -> None:
    """Write an SVG document; replaces an existing file.

    Raises:
        ConfigError: the name does not end in .svg, or the file cannot be written.
    """
    check_svg_path(path)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise ConfigError("out", f"be a file that can be written ({exc.strerror})") from exc


def check_svg_path(path: Path) -> None:
    """Raise ConfigError unless the name ends in .svg; call this before asking a server."""
    if path.suffix.lower() != ".svg":
        raise ConfigError(
            "out",
            "end in .svg",
            path.name,
            hint="A browser prints it, or saves it as another kind.",
        )

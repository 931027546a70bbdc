"""SVG text, one element at a time; every text and attribute is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# XML 1.0 allows no other characters, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STANDALONE = (
    "svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
)


def element(tag: str, content: str | None = None, **attributes: object) -> str:
    """An element; attribute names have `_` for `-`, None leaves one out, `content` is markup."""
    parts = [tag]
    for name, value in attributes.items():
        if value is not None:
            parts.append(f'{name.rstrip("_").replace("_", "-")}="{escaped(_plain(value))}"')
    opened = " ".join(parts)
    return f"<{opened}/>" if content is None else f"<{opened}>{content}</{tag}>"


def escaped(text: str) -> str:
    """Text escaped for XML; characters that XML forbids are replaced."""
    return escape(_NOT_XML.sub("�", text))


def text_at(x: float, y: float, text: str, **attributes: object) -> str:
    """A line of text in the colour of the surroundings."""
    return element("text", escaped(text), x=x, y=y, fill="currentColor", **attributes)


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """The `d` of a path through points."""
    steps = " L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def document(
    body: Iterable[str], *, width: float, height: float, name: str, text: str, standalone: bool
) -> str:
    """A whole SVG document.

    Args:
        body: elements, back to front.
        width, height: in pixels.
        name, text: what a screen reader says: the plot's title, and what it shows.
        standalone: bring colours and a background for light and dark; a page that the plot is
            set into has its own, and may forbid styles within.
    """
    style = element("style", _STANDALONE) if standalone else ""
    head = element("title", escaped(name)) + element("desc", escaped(text))
    return element(
        "svg",
        style + head + "\n" + "\n".join(body) + "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=f"{name}. {text}",
        font_family="system-ui, sans-serif",
        font_size=13,
    )


def _plain(value: object) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"

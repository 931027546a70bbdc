"""The width of text, estimated without a font; the estimate is rather too large."""

from __future__ import annotations

FONT_SIZE = 13
LINE_HEIGHT = 18
_NARROW = frozenset("iljtfrI.,:;'|()[]{}!/ -")
_WIDE = frozenset("mwMW@%&")


def text_width(text: str, *, size: float = FONT_SIZE) -> float:
    """An upper estimate of the width of a line of sans-serif text, in the units of `size`."""
    return size * sum(map(_em, text))


def _em(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _WIDE or ord(character) > 0x2E7F:
        return 1.0
    return 0.78 if character.isupper() else 0.64


def wrapped(text: str, *, width: float, size: float = FONT_SIZE) -> list[str]:
    """`text` in lines of at most `width`; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(joined, size=size) <= width:
            lines[-1] = joined
        else:
            lines.append(shortened(word, width=width, size=size))
    return lines


def shortened(text: str, *, width: float, size: float = FONT_SIZE) -> str:
    """`text`, or as much of it as has room before an ellipsis."""
    if text_width(text, size=size) <= width:
        return text
    kept = text
    while kept and text_width(kept + "…", size=size) > width:
        kept = kept[:-1]
    return kept + "…"

"""Samplers of many answers from stand-ins that draw one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

One = Callable[..., int]


def each_new(draw: One) -> Callable[..., list[int]]:
    """In place of `release`: each truth by itself, in their order."""

    def release(truths: Sequence[Any], **rest: Any) -> list[int]:
        return [draw(truth, **rest) for truth in truths]

    return release


def each_refined(draw: One) -> Callable[..., list[int]]:
    """In place of `release_refined`: each truth with what was released of it."""

    def release_refined(
        truths: Sequence[Any],
        *,
        released: Sequence[int],
        old_alphas_nano: Sequence[int],
        **rest: Any,
    ) -> list[int]:
        found = zip(truths, released, old_alphas_nano, strict=True)
        return [draw(t, released_index=i, old_alpha_nano=a, **rest) for t, i, a in found]

    return release_refined

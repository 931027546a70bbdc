"""Where a dataset's codes are on Spark, and what its owner declared of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qserver.errors import ConfigError
from worker.sources.address import Address, check_address

MOST_SLOT_S = 120.0
_PATTERN = "*?[]{}\\"


@dataclass(frozen=True)
class SparkPlace:
    """The facts that fix how a dataset is counted on Spark; without secrets.

    Args:
        folder: the owner's folder for codes, as Spark names it, such as `s3a://BUCKET/codes`.
        slot_s: seconds that the count of one row or table is given, declared by the owner; public,
            as answers take so long.

    Raises:
        ConfigError: a value is out of range, or holds a secret.
    """

    folder: str
    slot_s: float

    def __post_init__(self) -> None:
        if "://" not in self.folder and not self.folder.startswith("/"):
            raise ConfigError("codes", "be a whole path or URI that all of Spark's machines reach")
        if any(sign in self.folder for sign in _PATTERN):
            raise ConfigError("codes", f"hold none of {_PATTERN}, which Spark takes for a pattern")
        if not 0 < self.slot_s <= MOST_SLOT_S:
            raise ConfigError("slot", f"be above 0 and at most {MOST_SLOT_S:g} s", self.slot_s)
        check_address(self.folder)


@dataclass(frozen=True)
class SparkCodes:
    """Sealed codes on Spark; private.

    Args:
        source: the address of Spark, with references to secrets, and `options` as in `Address`.
        place: as the owner named it.
        name: of the folder below `place.folder` that holds these codes.
        salt, check: the rows' hashes under this salt add up to the check; see `check_of`.
    """

    source: str
    options: tuple[str, ...]
    place: SparkPlace
    name: str
    salt: str
    check: str

    @property
    def path(self) -> str:
        """The folder of the codes."""
        return f"{self.place.folder.rstrip('/')}/{self.name}"

    @property
    def address(self) -> Address:
        """The address of Spark; its table is not read again."""
        return Address(self.source, table="codes", options=self.options)

    def to_plain(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "source": self.source,
            "options": list(self.options),
            "folder": self.place.folder,
            "slot_s": self.place.slot_s,
            "name": self.name,
            "salt": self.salt,
            "check": self.check,
        }

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> SparkCodes:
        """The place that `to_plain` wrote."""
        place = SparkPlace(plain["folder"], plain["slot_s"])
        rest = {name: plain[name] for name in ("source", "name", "salt", "check")}
        return cls(options=tuple(plain["options"]), place=place, **rest)


def place_of(folder: str, slot_s: float | None) -> SparkPlace | None:
    """The owner's typed place; None if the codes stay on this machine.

    Raises:
        ConfigError: one is given without the other.
    """
    if not folder and slot_s is None:
        return None
    if not folder or slot_s is None:
        raise ConfigError("slot", "be given together with --codes")
    return SparkPlace(folder, slot_s)


def column_names(sizes: Sequence[int]) -> list[str]:
    """The names of the columns of codes."""
    return [f"c{axis}" for axis in range(len(sizes))]


def schema_of(sizes: Sequence[int]) -> str:
    """The columns of codes as Spark declares them. It has no unsigned types."""
    return ", ".join(f"{name} INT" for name in column_names(sizes))

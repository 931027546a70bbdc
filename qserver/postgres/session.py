"""The settings of one connection, and its transaction, which can only take back settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from qserver.postgres.wire.faults import UNKNOWN_SETTING, WRONG_VALUE, PostgresError
from qserver.query.sql.exactness import Exactness
from qserver.query.sql.shaping.units_of_measure import KINDS

SERVER_VERSION: Final = "16.0"
SPEND: Final = "qserver.spend"
WITHIN: Final = "qserver.within"
CONFIDENCE: Final = "qserver.confidence"
MOST: Final = "qserver.most"
INTERVALS: Final = "qserver.intervals"
COLUMNS: Final = "columns"
ROUNDED: Final = "qserver.rounded"
_OWN: Final = (SPEND, MOST, WITHIN, CONFIDENCE, INTERVALS, ROUNDED)
_SWITCHES: Final = (SPEND, INTERVALS, ROUNDED)
_PEOPLE = frozenset({"psql"})
"""Programs whose tables people read, by the name that they give themselves."""
_TRUE = ("on", "true", "yes", "1", "t", "y")
_FALSE = ("off", "false", "no", "0", "f", "n")
_DEFAULTS: Mapping[str, str] = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "integer_datetimes": "on",
    "in_hot_standby": "off",
    "intervalstyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C.UTF-8",
    "lc_ctype": "C.UTF-8",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "off",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "160000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
    SPEND: "off",
    MOST: "",
    WITHIN: "",
    CONFIDENCE: "",
    INTERVALS: "on",
    ROUNDED: "",
}
_FIXED = frozenset(
    {
        "in_hot_standby",
        "integer_datetimes",
        "is_superuser",
        "lc_collate",
        "lc_ctype",
        "max_identifier_length",
        "max_index_keys",
        "server_encoding",
        "server_version",
        "server_version_num",
        "session_authorization",
    }
)
# Clients that act on one of these learn it at the start, and when it changes.
_REPORTED: Mapping[str, str] = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}


@dataclass
class Session:
    """One connection's settings.

    Args:
        user: the account's name, or what the client called itself where there are no accounts.
        database: what the client named; all datasets stand in each.

    Attributes:
        status: `I` outside of a transaction, `T` within, `E` in one that failed.
        spent_nano: what the connection was charged so far.
    """

    user: str
    database: str
    status: str = "I"
    spent_nano: int = 0
    _values: dict[str, str] = field(default_factory=lambda: dict(_DEFAULTS))
    _start: dict[str, str] = field(default_factory=lambda: dict(_DEFAULTS))
    _before: dict[str, str] | None = None
    _local: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._values["session_authorization"] = self.user

    @property
    def spends(self) -> bool:
        """Whether a statement beyond history may be measured and charged."""
        return self._values[SPEND] == "on"

    @property
    def has_intervals(self) -> bool:
        """Whether columns of intervals stand beside the numbers."""
        return self._values[INTERVALS] in ("on", COLUMNS)

    @property
    def names_ends(self) -> bool:
        """Whether ends of intervals are columns of the catalogue and may be named in statements."""
        return self._values[INTERVALS] == COLUMNS

    @property
    def rounds(self) -> bool:
        """Whether numbers are rounded by their own intervals; by default for people."""
        said = self._values[ROUNDED]
        return said == "on" if said else self._values["application_name"] in _PEOPLE

    @property
    def default(self) -> Exactness:
        """The exactness where a text states none."""
        within, confidence = self._values[WITHIN], self._fraction(CONFIDENCE)
        if "=" in within:
            return Exactness(confidence=confidence, by_kind=_by_kind(within))
        return Exactness(self._fraction(WITHIN), confidence)

    @property
    def left_nano(self) -> int | None:
        """The charge still allowed to the connection; None without a bound."""
        most = self._fraction(MOST)
        return None if most is None else max(0, int(most * 10**9) - self.spent_nano)

    def own(self) -> tuple[object, ...]:
        """All settings that an answer depends on."""
        return (*(self._values[name] for name in _OWN), self.rounds, self.left_nano)

    def _fraction(self, name: str) -> Fraction | None:
        return Fraction(self._values[name]) if self._values[name] else None

    def get(self, name: str) -> str:
        """A setting; PostgresError."""
        found = self._values.get(_known_as(name))
        if found is None:
            raise _unknown(name)
        return found

    def all(self) -> dict[str, str]:
        """All settings."""
        return dict(sorted(self._values.items()))

    def put(self, name: str, value: str | None, *, local: bool = False) -> dict[str, str]:
        """Set a setting, or for None its first value; returns what clients are told of it.

        Args:
            local: until the transaction ends.

        Raises:
            PostgresError: there is no such setting of ours, or it has no such value.
        """
        name = _known_as(name)
        if name not in _DEFAULTS:
            if name.startswith("qserver."):
                raise _unknown(name)
            # Clients set many names in passing that nothing here depends on.
            return {}
        if value is None:
            value = self._start[name]
        elif name in _FIXED:
            raise PostgresError("55P02", f"`{name}` cannot be changed.")
        value = _checked(name, value)
        if local and self._before is None:
            return {}
        if local:
            self._local.setdefault(name, self._values[name])
        else:
            self._local.pop(name, None)
        self._values[name] = value
        return self._told(name)

    def begun(self) -> None:
        """Make the present settings, except spending, those of RESET."""
        self._start = {**self._values, SPEND: _DEFAULTS[SPEND]}

    def reset(self) -> dict[str, str]:
        """Reset all settings as at the start; nothing is spent any longer."""
        told = dict[str, str]()
        for name in _DEFAULTS:
            if name not in _FIXED:
                told |= self.put(name, None)
        return told

    def begin(self) -> bool:
        """Begin a transaction; False inside one."""
        if self._before is not None:
            return False
        self._before, self.status = dict(self._values), "T"
        return True

    def end(self, *, keeps: bool) -> bool:
        """End the transaction; without `keeps`, take its settings back. False outside one.

        What was asked is answered and charged at once: that cannot be taken back.
        """
        before, self._before = self._before, None
        if before is None:
            return False
        if keeps and self.status != "E":
            self._values |= self._local
        else:
            self._values = before
        self._local.clear()
        self.status = "I"
        return True

    def fail(self) -> None:
        """Note that a statement failed, and its transaction with it."""
        if self.status == "T":
            self.status = "E"

    def reported(self) -> dict[str, str]:
        """The settings that a client is told at the start."""
        return {shown: self._values[name] for name, shown in _REPORTED.items()}

    def _told(self, name: str) -> dict[str, str]:
        shown = _REPORTED.get(name)
        return {} if shown is None else {shown: self._values[name]}


def _known_as(name: str) -> str:
    lowered = name.lower()
    return {"names": "client_encoding", "time zone": "timezone"}.get(lowered, lowered)


def _unknown(name: str) -> PostgresError:
    return PostgresError(
        UNKNOWN_SETTING,
        f"There is no setting called `{name[:60]}`.",
        hint=f"qserver's own: {', '.join(_OWN)}.",
    )


def _checked(name: str, value: str) -> str:
    if name == INTERVALS and value.strip().lower() == COLUMNS:
        return COLUMNS
    if name == WITHIN and "=" in value:
        _by_kind(value)
        return value.strip()
    if name in _SWITCHES and (value.strip() or name != ROUNDED):
        lowered = value.strip().lower()
        if lowered not in _TRUE + _FALSE:
            raise PostgresError(WRONG_VALUE, f"Set `{name}` to on or off.")
        return "on" if lowered in _TRUE else "off"
    if name in (WITHIN, CONFIDENCE, MOST) and value.strip():
        return _number(name, value.strip())
    if name == "client_encoding":
        if value.strip(" '").upper().replace("-", "").replace("_", "") not in ("UTF8", "UNICODE"):
            raise PostgresError("22023", "Set `client_encoding` to UTF8: no other is sent.")
        return "UTF8"
    return value.strip() if name in _OWN else value


def _by_kind(value: str) -> tuple[tuple[str, Fraction], ...]:
    """The lengths in `count=100, avg=1, share=.02`; PostgresError."""
    found = dict[str, Fraction]()
    for part in value.split(","):
        kind, _, length = (word.strip() for word in part.partition("="))
        if kind.lower() not in KINDS:
            raise PostgresError(
                WRONG_VALUE,
                f"Set `{WITHIN}` to a number, or to one for each kind of numbers.",
                hint=f"Such as 'count=100, avg=1, share=.02'. Kinds: {', '.join(KINDS)}.",
            )
        found[kind.lower()] = Fraction(_number(WITHIN, length))
    return tuple(sorted(found.items()))


def _number(name: str, value: str) -> str:
    try:
        found = Fraction(value)
    except (ValueError, ZeroDivisionError) as exc:
        raise PostgresError(WRONG_VALUE, f"Set `{name}` to a number.") from exc
    if found <= 0 or (name == CONFIDENCE and found >= 1) or len(value) > 40:
        bounds = "between 0 and 1" if name == CONFIDENCE else "above 0"
        raise PostgresError(WRONG_VALUE, f"Set `{name}` to a number {bounds}.")
    return value

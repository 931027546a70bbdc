"""Kinds whose models can go on from an earlier one when history has grown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from qserver.answering.models.kinds.kind import Model
from qserver.query.domain import Domain
from qserver.records.history import AnyMeasurement


@runtime_checkable
class GrowingKind(Protocol):
    """A kind that is made faster from an earlier model than from nothing."""

    def goes_on(self, specification: str, earlier: str) -> bool:
        """Whether models of two specifications differ in what was bought for them alone."""

    def rebuild(
        self,
        specification: str,
        domain: Domain,
        measurements: Sequence[AnyMeasurement],
        *,
        earlier: Model,
    ) -> Model:
        """The model that `build` makes, but for the precision that the kind states.

        Args:
            earlier: a model of this kind on another version, whose specification this goes on
                from.
        """

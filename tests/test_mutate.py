"""The parts of `python -m tests.mutate`: what it changes, which tests it runs, what it leaves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import mutate
from tests.mutate import (
    ROOT,
    Mutation,
    applied,
    copied,
    mutations,
    nearest_tests,
    rounds,
    sampled,
    verdict,
)

FILES = {
    "qserver/__init__.py": "",
    "qserver/room/__init__.py": "",
    "qserver/room/sums.py": "def larger(a, b):\n    return a if a > b else b\n",
    "qserver/room/uses.py": "from qserver.room.sums import larger\n\nlargest = larger\n",
    "qserver/room/alone.py": "def nothing():\n    return 1\n",
    "tests/__init__.py": "",
    "tests/helper.py": "from qserver.room import uses\n",
    "tests/room/__init__.py": "",
    "tests/room/test_far.py": "from tests.helper import uses\n",
    "tests/room/test_near.py": "import qserver.room.sums as sums\n\n\ndef test_it():\n"
    "    assert sums.larger(1, 2) == sums.larger(2, 1) == 2\n",
    "tests/other/__init__.py": "",
    "tests/other/conftest.py": "from qserver.room.uses import largest\n",
    "tests/other/test_by_conftest.py": "",
    "tests/other/test_broken.py": "import qserver.room.sums\n\nraise ValueError\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small product with its tests."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _changes(source: str) -> set[tuple[str, str, str]]:
    return {(one.kind, one.before, one.after) for one in mutations(Path("a.py"), source)}


@pytest.mark.parametrize(
    ("source", "kind", "before", "after"),
    [
        ("x = a < b", "compare", "a < b", "a <= b"),
        ("x = a is not b", "compare", "a is not b", "a is b"),
        ("x = a in b", "compare", "a in b", "a not in b"),
        ("x = a and b and c", "and/or", "a and b and c", "a or b or c"),
        ("if a: pass", "negate", "a", "not a"),
        ("x = [a for a in b if a > c]", "negate", "a > c", "not a > c"),
        ("x = not a", "drop sign", "not a", "a"),
        ("x = -a", "drop sign", "-a", "a"),
        ("x = a + b", "calculate", "a + b", "a - b"),
        ("x = a * b", "calculate", "a * b", "a / b"),
        ("x = a[1:]", "one more", "1", "2"),
        ("f(a, b=False)", "true/false", "False", "True"),
        ("def f(): return a", "return None", "return a", "return None"),
        ("x = np.min(a)", "other function", "np.min", "np.max"),
        ("x = any(a)", "other function", "any", "all"),
    ],
)
def test_each_kind_of_change_is_made(source: str, kind: str, before: str, after: str) -> None:
    assert (kind, before, after) in _changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""1 < 2."""',
        "x: dict[Literal[1], bool]",
        "def f(a: Literal[1]) -> Literal[2]: pass",
        "raise ValueError(1 + 2)",
        "x = f'{a + 1}'",
        "if TYPE_CHECKING:\n    x = 1",
        "class A:\n    def __repr__(self):\n        return str(1 + 2)",
        "x = 'a' + b",
        "x = isinstance(a, ast.If | ast.Name)",
        "def f(): return None",
    ],
)
def test_messages_types_and_what_is_no_number_stay_as_they_are(source: str) -> None:
    assert _changes(source) == set()


def test_every_change_of_a_file_is_a_real_one_and_can_be_read() -> None:
    path = ROOT / "qserver" / "query" / "asking" / "after_looking.py"
    source = path.read_text(encoding="utf-8")
    found = mutations(Path("after_looking.py"), source)
    same = ast.dump(ast.parse(source))
    assert len(found) > 20
    assert same not in {ast.dump(ast.parse(one.text)) for one in found}
    assert len({one.text for one in found}) == len(found)


def test_a_sample_follows_from_its_seed_and_is_of_the_product_alone(root: Path) -> None:
    found = sampled(root, 5, seed=3)
    assert found == sampled(root, 5, seed=3) != sampled(root, 5, seed=4)
    assert len({one.text for one in found}) == 5
    assert {one.path.parts[0] for one in found} == {"qserver"}


def test_the_nearest_tests_are_those_with_the_fewest_steps_of_imports(root: Path) -> None:
    """Two have one step and two have three, by a conftest; those of the same folder go first."""
    found = [path.name for path in nearest_tests(root, Path("qserver/room/sums.py"))]
    assert found == ["test_near.py", "test_broken.py", "test_far.py", "test_by_conftest.py"]
    assert nearest_tests(root, Path("qserver/room/alone.py")) == []


@pytest.mark.parametrize(
    ("n_first", "n_next", "names"),
    [
        (1, 1, [["test_near.py"], ["test_broken.py"], ["test_far.py"]]),
        (2, 2, [["test_near.py", "test_broken.py"], ["test_far.py", "test_by_conftest.py"], []]),
    ],
)
def test_few_tests_run_first_and_those_of_the_room_last(
    root: Path, monkeypatch: pytest.MonkeyPatch, n_first: int, n_next: int, names: list[list[str]]
) -> None:
    monkeypatch.setattr(mutate, "FIRST", n_first)
    monkeypatch.setattr(mutate, "NEXT", n_next)
    found = rounds(root, Path("qserver/room/sums.py"))
    assert [[path.name for path in one] for one in found] == names


def test_a_change_is_undone_and_the_files_themselves_are_never_touched(root: Path) -> None:
    path = Path("qserver/room/sums.py")
    before = {name: (root / name).read_bytes() for name in FILES}
    one = Mutation(path, 1, "compare", "a", "b", "changed")
    with copied(root) as copy:
        with applied(one, copy):
            assert (copy / path).read_text() == "changed"
            assert {name: (root / name).read_bytes() for name in FILES} == before
        assert {name: (copy / name).read_bytes() for name in FILES} == before
    assert not copy.exists()


@pytest.mark.slow
def test_a_change_is_killed_by_a_test_that_sees_it_or_survives(root: Path) -> None:
    """What fails without any change is no test that sees one."""
    broken = set[Path]()
    path = Path("qserver/room/sums.py")
    found = {
        one.after: verdict(one, root, 60.0, broken)
        for one in mutations(path, FILES[str(path)])
        if one.kind in ("negate", "compare")
    }
    assert found == {"not a > b": "tests/room/test_near.py::test_it", "a >= b": ""}
    assert broken == {Path("tests/other/test_broken.py")}

"""Where compiled code is kept: under a name that changes with all that it depends on, and never trusted blindly."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ridgeformer.kernels import cache, jit
from support import run_python

PACKAGE = Path(cache.__file__).parents[1]
# Modules of core of which nothing is compiled in: what the Python side of the kernels takes from them.
NOT_COMPILED_IN = {"kinds", "notation", "storage", "validation"}


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """A copy of all that is compiled in."""
    copies = []
    for source in cache.sources():
        copy = tmp_path / source.parent.name / source.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(source.read_bytes())
        copies.append(copy)
    return copies


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("core/random.py", "PHILOX_ROUNDS = 7", "PHILOX_ROUNDS = 10"),
        ("core/gradient.py", "EXPLODED = 1e12", "EXPLODED = 1e13"),
        ("kernels/chain.py", "advance_gram", "advanced_gram"),
    ],
)
def test_digest_changes_with_a_constant_that_is_compiled_in(
    sources: list[Path], name: str, before: str, after: str
) -> None:
    digest = cache.cache_digest(sources)
    assert digest == cache.cache_digest(reversed(sources)) == cache.cache_digest(cache.sources())
    (changed,) = (source for source in sources if source.as_posix().endswith(name))
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after))
    assert cache.cache_digest(sources) != digest


@pytest.mark.parametrize(
    "what",
    [
        "numba.__version__",
        "llvmlite.__version__",
        "numba.config.CPU_NAME",
        "numba.config.CPU_FEATURES",
        "llvm.get_host_cpu_name",
        "llvm.get_host_cpu_features",
    ],
)
def test_digest_changes_with_the_compilers_and_the_processor(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    digest = cache.cache_digest([])
    other = (lambda: {"none": False}) if "host_cpu_features" in what else (lambda: "8086") if "host" in what else "0"
    monkeypatch.setattr(f"ridgeformer.kernels.cache.{what}", other)
    assert cache.cache_digest([]) != digest


def test_kernels_take_constants_from_no_module_that_the_digest_leaves_out() -> None:
    """Every import within the package, read from the text: another kernel, or core with a reason."""
    for source in sorted((PACKAGE / "kernels").glob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                module = str(node.module)
                names = [f"{module}.{alias.name}" for alias in node.names] if module == "ridgeformer.core" else [module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                room, _, rest = name.removeprefix("ridgeformer.").partition(".")
                if name.startswith("ridgeformer") and room != "kernels":
                    assert room == "core", f"{source.name} imports {name}"
                    assert rest in {*cache.CONSTANTS, *NOT_COMPILED_IN}, f"{source.name} imports {name}"


def test_sources_are_all_kernels_and_the_modules_with_constants() -> None:
    expected = {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "kernels").glob("*.py")}
    expected |= {f"core/{name}.py" for name in cache.CONSTANTS}
    assert {path.relative_to(PACKAGE).as_posix() for path in cache.sources()} == expected


def add_one() -> tuple[float, bool]:
    """(1 + 1 by a kernel, whether its code was found on disk)."""

    @jit.kernel
    def add(x: float) -> float:
        return x + 1.0

    return add(1.0), sum(add.stats.cache_hits.values()) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    return tmp_path


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return bytes([*data[:middle], data[middle] ^ 1, *data[middle + 1 :]])


@pytest.mark.parametrize("part", ["", ".sha256"])
@pytest.mark.parametrize(
    "damage", [flip, lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data + b"\0"]
)
def test_damaged_entry_is_compiled_again_and_then_found(
    folder: Path, damage: Callable[[bytes], bytes], part: str
) -> None:
    assert add_one() == (2.0, False)
    assert add_one() == (2.0, True)
    (entry,) = folder.glob(f"*.kernel{part}")
    entry.write_bytes(damage(entry.read_bytes()))
    assert add_one() == (2.0, False)
    assert add_one() == (2.0, True)


def test_entry_that_is_no_file_and_one_that_cannot_be_written_are_no_error(folder: Path) -> None:
    add_one()
    (entry,) = folder.glob("*.kernel")
    entry.unlink()
    entry.mkdir()
    with pytest.warns(cache.KernelCacheWarning, match="cannot be stored"):
        assert add_one() == (2.0, False)


def test_folder_is_made_for_its_owner_only_and_one_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGEFORMER_CACHE_DIR", str(tmp_path / "cache"))
    made = cache.cache_folder.__wrapped__()
    assert made is not None
    assert made.name == f"kernels-{cache.cache_digest(cache.sources())}"
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o770)
    with pytest.warns(cache.KernelCacheWarning, match="other users can write"):
        assert cache.cache_folder.__wrapped__() is None
    made.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(cache.KernelCacheWarning, match="belongs to another user"):
        assert cache.cache_folder.__wrapped__() is None


def test_without_a_folder_kernels_are_compiled_in_memory_and_one_warning_says_so(tmp_path: Path) -> None:
    """Nor does numba's own setting, or its habit of writing beside the source, bring back a cache without a digest."""
    (tmp_path / "file").touch()
    code = """
import warnings
import ridgeformer as rf
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    context = rf.Task(3, 8).draw_contexts(5, seed=0, dtype="float32").context
    model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    print(rf.context_weights(model, context, backend="fused").shape, len(told), told[0].category.__name__)
"""
    before = {path.name for path in (PACKAGE / "kernels" / "__pycache__").glob("*.nb*")}
    printed = run_python(code, cache=tmp_path / "file", NUMBA_CACHE_DIR=str(tmp_path / "numba"))
    assert printed == "(5, 3) 1 KernelCacheWarning\n"
    assert not (tmp_path / "numba").exists()
    assert {path.name for path in (PACKAGE / "kernels" / "__pycache__").glob("*.nb*")} == before

"""Where compiled code is kept: under a name that changes with all that it depends on, and with nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ridgeformer.core import storage
from ridgeformer.kernels import compile_hooks, jit

PACKAGE = Path(jit.__file__).parents[1]
# Modules of core of which nothing is compiled in: what the Python side of the kernels takes from them.
NOT_COMPILED_IN = {"kinds", "notation", "storage", "validation"}


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """A copy of all that is compiled in."""
    copies = []
    for source in jit.sources():
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
        ("kernels/chain.py", "copy_matrix", "copied_matrix"),
    ],
)
def test_digest_changes_with_a_constant_that_is_compiled_in(
    sources: list[Path], name: str, before: str, after: str
) -> None:
    digest = jit.cache_digest(sources)
    assert digest == jit.cache_digest(reversed(sources)) == jit.cache_digest(jit.sources())
    (changed,) = (source for source in sources if source.as_posix().endswith(name))
    text = changed.read_text()
    assert before in text
    changed.write_text(text.replace(before, after))
    assert jit.cache_digest(sources) != digest


@pytest.mark.parametrize(
    "what", ["numba.__version__", "llvmlite.__version__", "llvm.get_host_cpu_name", "llvm.get_host_cpu_features"]
)
def test_digest_changes_with_the_compilers_and_the_processor(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    digest = jit.cache_digest([])
    other = "0" if "version" in what else (lambda: {"none": False}) if "features" in what else (lambda: "8086")
    monkeypatch.setattr(f"ridgeformer.kernels.jit.{what}", other)
    assert jit.cache_digest([]) != digest


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
                    assert rest in {*jit.CONSTANTS, *NOT_COMPILED_IN}, f"{source.name} imports {name}"


def test_sources_are_all_kernels_and_the_modules_with_constants() -> None:
    expected = {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "kernels").glob("*.py")}
    expected |= {f"core/{name}.py" for name in jit.CONSTANTS}
    assert {path.relative_to(PACKAGE).as_posix() for path in jit.sources()} == expected


def test_cache_folder_is_the_chosen_one_and_named_after_the_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RIDGEFORMER_CACHE_DIR", str(tmp_path))
    assert storage.cache_root() == tmp_path
    monkeypatch.delenv("RIDGEFORMER_CACHE_DIR")
    assert storage.cache_root().name == "ridgeformer"
    assert jit.cache_digest(jit.sources()) in jit.CACHE.name


def test_compiled_says_whether_this_version_has_code_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jit, "CACHE", tmp_path / "kernels-0")
    assert not jit.compiled()
    (tmp_path / "kernels-0" / "engine").mkdir(parents=True)
    assert not jit.compiled()
    (tmp_path / "kernels-0" / "engine" / "a.nbc").touch()
    assert jit.compiled()


def test_compile_hooks_are_told_when_a_kernel_is_compiled_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of what the kernel compiles on the way. The list is `ridgeformer.kernels.compile_hooks`."""
    assert vars(jit)["compile_hooks"] is compile_hooks
    told: list[bool] = []
    monkeypatch.setattr(jit, "compile_hooks", [told.append])

    @jit.device
    def inner(x: float) -> float:
        return x + 1

    @jit.device
    def outer(x: float) -> float:
        return 2 * inner(x)

    assert outer(1.0) == 4.0
    assert told == [True, False]
    assert outer(2.0) == 6.0
    assert told == [True, False]

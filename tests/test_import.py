"""What importing costs: nothing heavy, nothing compiled; and compiled code is found again on disk."""

from __future__ import annotations

from pathlib import Path

from support import run_python

HEAVY = ("numba", "llvmlite", "jax", "torch", "matplotlib", "scipy", "tyro", "rich")


def loaded_after(code: str) -> set[str]:
    """Which of the heavy modules are loaded after running ``code`` in a fresh interpreter."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    return set(run_python(f"{code}\n{report}").split()) & set(HEAVY)


def test_loaded_after_sees_a_heavy_module() -> None:
    """The control of the tests below."""
    assert "rich" in loaded_after("import rich")


def test_import_of_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import ridgeformer") == set()


def test_import_of_the_kernels_package_loads_nothing_heavy() -> None:
    assert loaded_after("import ridgeformer.kernels") == set()


def test_small_predictions_and_draws_load_nothing_heavy() -> None:
    code = """
import numpy as np
import ridgeformer as rf
model = rf.LinearTransformer.init("full", layers=3)
draw = rf.Task().draw_tokens(20, seed=0)
rf.predict(model, draw.X, draw.y, draw.query[:, None])
rf.implicit_weights(model, draw.X, draw.y)
rf.Task().draw_contexts(100, seed=0)
rf.loss_and_gradient(model, rf.Task(), batch=20, seed=0, backend="reference")
"""
    assert loaded_after(code) == set()


def test_import_of_the_engine_compiles_nothing() -> None:
    code = """
from ridgeformer.kernels import engine
from numba.core.dispatcher import Dispatcher
import sys
for module in [module for name, module in sys.modules.items() if name.startswith("ridgeformer.kernels.")]:
    for name, value in vars(module).items():
        if isinstance(value, Dispatcher):
            print(name, len(value.signatures))
"""
    compiled = dict(line.split() for line in run_python(code).splitlines())
    assert {"full_gradient", "diagonal_gradient", "full_weights", "diagonal_weights", "draw_contexts"} <= set(compiled)
    assert set(compiled.values()) == {"0"}


# The smallest kernel, in float32: two seconds to compile.
USE_KERNEL = """
import ridgeformer as rf
from ridgeformer.kernels.inference import diagonal_weights
context = rf.Task(3, 8).draw_contexts(5, seed=0, dtype="float32").context
rf.context_weights(rf.LinearTransformer.init("diag", layers=2, dim=3), context, backend="fused")
stats = diagonal_weights.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_compiled_kernels_are_found_again_on_disk(tmp_path: Path) -> None:
    assert run_python(USE_KERNEL, cache=tmp_path).split() == ["0", "1"]
    folders = [path.name for path in tmp_path.iterdir()]
    assert len(folders) == 1
    assert folders[0].startswith("kernels-")
    assert run_python(USE_KERNEL, cache=tmp_path).split() == ["1", "0"]


def test_version_is_the_one_of_the_package() -> None:
    import ridgeformer as rf
    from ridgeformer._version import __version__

    assert rf.__version__ == __version__


def test_every_public_name_exists() -> None:
    import ridgeformer as rf

    assert all(hasattr(rf, name) for name in rf.__all__)
    assert len(set(rf.__all__)) == len(rf.__all__)

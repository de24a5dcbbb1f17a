"""The algorithm as code and as LaTeX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Algorithm, algorithm, explain_model, omega_of, refit
from ridgeformer.analysis.algorithm import recorded_task
from support import make_examples, one_sentence, relative_error, tame_model

EXAMPLES = make_examples(5, 12, 4, seed=1)
TASK = rf.Task(4, 12, "uniform:2")
RUN = """
import sys
import numpy as np

data = np.load("data.npz")
scope = {}
exec(open("algorithm.py", encoding="utf-8").read(), scope)
np.save("found.npy", np.stack([scope["fit"](X, y) for X, y in zip(data["X"], data["y"])]))
assert "ridgeformer" not in sys.modules
"""


def run_elsewhere(code: str, folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """ŵ by the printed code in an interpreter that knows NumPy and nothing else of ours."""
    (folder / "algorithm.py").write_text(code, encoding="utf-8")
    np.savez(folder / "data.npz", X=EXAMPLES.X, y=EXAMPLES.y)
    done = subprocess.run([sys.executable, "-c", RUN], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "found.npy")


@pytest.mark.parametrize(("kind", "heads", "layers"), [("gdpp", 1, 3), ("diag", 1, 4), ("diag", 2, 1), ("diag", 3, 2)])
def test_code_in_a_fresh_interpreter_is_the_model(kind: str, heads: int, layers: int, tmp_path: Path) -> None:
    model = tame_model(kind, layers, heads, 4, EXAMPLES.gram, strength=1.5)
    found = run_elsewhere(algorithm(model, TASK).as_code(), tmp_path)
    assert relative_error(found, rf.implicit_weights(model, EXAMPLES.X, EXAMPLES.y)) < 1e-12


def test_code_of_a_float32_model_agrees_unless_a_constant_is_changed(tmp_path: Path) -> None:
    model = tame_model("diag", 3, 1, 4, EXAMPLES.gram).astype(np.float32)
    expected = rf.implicit_weights(model.astype(np.float64), EXAMPLES.X, EXAMPLES.y)
    omega = omega_of(model).copy()
    assert relative_error(run_elsewhere(Algorithm(omega, "T.", "N.").as_code(), tmp_path), expected) < 1e-6
    omega[1, 2] *= 1.01
    assert relative_error(run_elsewhere(Algorithm(omega, "T.", "N.").as_code(), tmp_path), expected) > 1e-6


def test_code_names_only_what_it_uses() -> None:
    code = algorithm(tame_model("gdpp", 3, 1, 4, EXAMPLES.gram), TASK).as_code()
    for word in ("xy", "yy", "energy"):
        assert word not in code
    assert len(code.splitlines()) < 40


def test_code_of_a_full_model_says_what_the_approximation_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refit, "CONTEXTS", 256)
    model = tame_model("full", 2, 1, 4, EXAMPLES.gram)
    code = algorithm(model, TASK, "net").as_code()
    assert "An approximation" in code
    found = rf.evaluate(model, TASK, 20_000).adjusted_loss
    assert f"where the full model has {found:.4g}" in code
    assert run_elsewhere(code, tmp_path).shape == (5, 4)
    assert explain_model(model, TASK, label="net", ablate=False).algorithm().as_code() == code


def test_hostile_label_cannot_leave_the_docstring(tmp_path: Path) -> None:
    model = tame_model("diag", 2, 1, 4, EXAMPLES.gram)
    label = 'x"""\nraise SystemExit(3)\n"""\\'
    code = algorithm(model, TASK, label).as_code()
    assert relative_error(run_elsewhere(code, tmp_path), rf.implicit_weights(model, EXAMPLES.X, EXAMPLES.y)) < 1e-12
    assert "\n" not in algorithm(model, TASK, label).title


def test_latex_has_every_term_and_constant() -> None:
    omega = np.array([[-0.25, 1.5e-5, -0.0625, 2e-7], [0.1, 0.2, -0.5, 12345.0]])
    text = Algorithm(omega, "T.", "N.").as_latex()
    for part in ("-0.25", "1.50000 \\cdot 10^{-5}", "2.00000 \\cdot 10^{-7}", "-0.5", "1.23450 \\cdot 10^{4}"):
        assert f"${part}$" in text
    for part in ("\\omega_{xx}^{l} \\Sigma^l x_i", "\\omega_{xy}^{l} y_i \\alpha^l", "\\omega_{yy}^{l} \\lambda^l y_i"):
        assert part in text
    assert "$0.1$" not in text  # nothing reads what the last layer writes into x
    assert text.count("\\begin") == text.count("\\end")
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("name", ["examples", "context"])
def test_recorded_task_is_read_under_its_former_and_present_names(name: str) -> None:
    parameters = tame_model("diag", 2, 1, 4, EXAMPLES.gram).parameters
    model = rf.LinearTransformer("diag", 4, parameters, {"task": {"dim": 4, name: 12, "noise": "uniform:2"}})
    assert recorded_task(model) == TASK
    assert "Trained for σ ~ uniform:2, d = 4, n = 12." in algorithm(model, TASK).as_code()
    assert recorded_task(rf.LinearTransformer("diag", 4, parameters)) is None


def test_algorithm_of_what_is_no_model_or_does_not_fit_is_refused_in_one_sentence() -> None:
    for wrong, hint in (("diag-4-uniform-5", "rf.load"), (rf.LinearTransformer.init("diag", layers=1, dim=3), "4")):
        with pytest.raises(rf.InputError, match=hint) as caught:
            algorithm(wrong, TASK)  # type: ignore[arg-type]
        one_sentence(caught.value)

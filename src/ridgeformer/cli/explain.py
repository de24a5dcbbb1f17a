"""``ridgeformer explain``: a learned algorithm taken apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ridgeformer.cli.evaluate import model_labels
from ridgeformer.cli.terminal import (
    Count,
    File,
    Folder,
    Progress,
    Spec,
    check_files,
    make_folder,
    output_console,
    say,
    write_json,
)
from ridgeformer.core.distributions import load_noise
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.zoo import load

if TYPE_CHECKING:
    from ridgeformer.analysis.explanation import Explanation

_SIMPLEST_SEQUENCES = 500_000


def explain(
    model: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="MODEL")]] = None,
    out: Folder = None,
    json: File = None,
    check: bool = False,
    as_code: bool = False,
    latex: bool = False,
    simplest: bool = False,
    ablate: bool = True,
    noise: Spec = None,
    examples: Count = None,
    sequences: Count = None,
    seed: int = 0,
) -> int:
    """Take a learned algorithm apart: what each part does, how it finds the noise, and the algorithm as code.

    Args:
        model: Model file or name of the zoo.
        out: Also write figures (SVG and PNG), explanation.json and the algorithm as code and LaTeX into this folder;
            with --check, figures of the theory.
        json: Also write everything as JSON.
        check: Hold the paper's theory against numbers instead, with the model if there is one; exit code 1 if it fails.
        as_code: Print the algorithm as a Python function that needs NumPy only, and nothing else.
        latex: Print the algorithm as LaTeX, and nothing else.
        simplest: Look for the fewest constants that do nearly as well as the model instead (three minutes).
        ablate: Switch parts off one at a time, and fit the rest again (most of the time this takes).
        noise: Prior of σ, such as uniform:5, or your own as module:Class(1, 2); by default what the model was trained
            on.
        examples: Examples in a context; by default what the model was trained on.
        sequences: Fresh sequences; by default 20000, or 500000 with --simplest.
        seed: Names the sequences: the same ones for the same seed.
    """
    check_seed(seed)
    if sequences is not None:
        whole_number("sequences", sequences, 1)
    if sum((check, as_code, latex, simplest)) > 1:
        raise InputError("Choose one of --check, --as-code, --latex and --simplest.")
    if (as_code or latex) and (out is not None or json is not None):
        raise InputError("--as-code and --latex only print; without them, --out writes the algorithm in both forms.")
    if check and (noise is not None or sequences is not None):
        raise InputError("--check draws contexts of its own: --noise and --sequences do not go with it.")
    if not ablate and (check or as_code or latex or simplest):
        raise InputError("Only the explanation itself switches parts off: --no-ablate does not go with other forms.")
    check_files(json)
    if model is None:
        if not check:
            raise InputError("Name a model file, or ask for --check alone.")
        if examples is not None:
            raise InputError("--examples is about a model: name one.")
        return _check(None, None, None if out is None else make_folder(out), json, seed)
    loaded, label = load(model), model_labels([model])[0]
    task = _task(loaded, noise, examples)
    folder = None if out is None else make_folder(out)
    if check:
        return _check(loaded, task.examples, folder, json, seed)
    if as_code or latex:
        from ridgeformer.analysis.algorithm import algorithm

        learned = algorithm(loaded, task, label, seed, sequences)
        sys.stdout.write(learned.as_code() if as_code else learned.as_latex())
        return 0
    if simplest:
        return _simplest(loaded, task, folder, json, sequences or _SIMPLEST_SEQUENCES, seed)
    from ridgeformer.analysis.explanation import explain_model

    with Progress(1.0) as progress:
        explanation = explain_model(
            loaded, task, label=label, sequences=sequences, seed=seed, ablate=ablate, on_stage=progress.show
        )
    return _show(explanation, folder, json)


def _task(model: LinearTransformer, noise: str | None, examples: int | None) -> Task:
    """What to draw: as asked, else as the model was trained, else the defaults of `Task`."""
    prior = None if noise is None else load_noise(noise)
    if prior is not None and examples is not None:
        return Task(model.dim, examples, prior)
    from ridgeformer.analysis.algorithm import recorded_task

    recorded = recorded_task(model) or Task()
    return Task(model.dim, recorded.examples if examples is None else examples, prior or recorded.prior)


def _show(explanation: Explanation, folder: Path | None, json: Path | None) -> int:
    from ridgeformer.cli.explain_tables import print_explanation

    console = output_console()
    print_explanation(explanation, console)
    if json is not None:
        write_json(json, explanation.as_json())
    if folder is not None:
        from ridgeformer.plots.analysis_figures import all_figures

        count = _save(all_figures(explanation), folder)
        write_json(folder / "explanation.json", explanation.as_json())
        learned = explanation.algorithm()
        write_whole(folder / "algorithm.py", learned.as_code().encode())
        write_whole(folder / "algorithm.tex", learned.as_latex().encode())
        say(console, f"Files: {count} figures, explanation.json, algorithm.py, algorithm.tex in {folder}.")
    return 0


def _check(
    model: LinearTransformer | None, examples: int | None, folder: Path | None, json: Path | None, seed: int
) -> int:
    from ridgeformer.analysis.explanation import plain
    from ridgeformer.cli.explain_tables import print_checks
    from ridgeformer.theory import run_checks

    checks = run_checks(seed, model, examples)
    console = output_console()
    print_checks(checks, console)
    if json is not None:
        write_json(json, plain(checks))
    if folder is not None:
        from ridgeformer.plots.theory_figures import theory_figures
        from ridgeformer.theory import theory_curves

        with Progress(1.0) as progress:
            curves = theory_curves(seed, model, examples, progress.show)
        count = _save(theory_figures(curves), folder)
        write_json(folder / "theory.json", {"checks": plain(checks), "curves": plain(curves)})
        say(console, f"Files: {count} figures, theory.json in {folder}.")
    return 0 if all(check.passed for check in checks) else 1


def _simplest(
    model: LinearTransformer, task: Task, folder: Path | None, json: Path | None, sequences: int, seed: int
) -> int:
    from ridgeformer.analysis.explanation import plain
    from ridgeformer.analysis.few_constants import simplest
    from ridgeformer.baselines import BASELINES
    from ridgeformer.cli.explain_tables import print_simplest

    references = {BASELINES[name].label: BASELINES[name].make(task) for name in ("adarr", "bayes")}
    with Progress(1.0) as progress:
        descriptions = simplest(
            model, task, sequences=sequences, seed=seed, references=references, on_stage=progress.show
        )
    print_simplest(descriptions, output_console())
    if json is not None:
        write_json(json, plain(descriptions))
    if folder is not None:
        from ridgeformer.plots.analysis_figures import ladder_figure

        write_json(folder / "simplest.json", plain(descriptions))
        _save({"simplest": ladder_figure(descriptions)}, folder)
    return 0


def _save(figures: Mapping[str, Any], folder: Path) -> int:
    """Write figures, each in two formats; how many files that makes."""
    from ridgeformer.plots.render import save_figure

    return sum(len(save_figure(figure, folder, name)) for name, figure in figures.items())

"""``ridgeformer explain``: show which algorithm a model has learned."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro

from ridgeformer import theory
from ridgeformer.analysis.algorithm import algorithm
from ridgeformer.analysis.explanation import Explanation, explain_model
from ridgeformer.analysis.few_constants import simplest as simplest_descriptions
from ridgeformer.analysis.registers import RegisterExplanation, explain_registers
from ridgeformer.baselines import baselines_for
from ridgeformer.cli import explain_tables, terminal
from ridgeformer.cli.evaluate import model_labels, task_for
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.plots import analysis_figures, theory_figures
from ridgeformer.zoo import load

_SIMPLEST_SEQUENCES = 500_000


def explain(
    model: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="MODEL")]] = None,
    out: terminal.Folder = None,
    json: terminal.File = None,
    check: bool = False,
    as_code: bool = False,
    latex: bool = False,
    simplest: bool = False,
    ablate: bool = True,
    noise: terminal.Noise = None,
    examples: terminal.Examples = None,
    features: terminal.Features = None,
    weights: terminal.Weights = None,
    noise_shape: terminal.NoiseShape = None,
    mixture: terminal.MixtureText = None,
    sequences: terminal.Count = None,
    seed: int = 0,
) -> int:
    """Show the algorithm that a model has learned: what each part does, and its code.

    By default sequences are drawn as in the model's training; --noise, --examples, --features and so on change that.

    Args:
        model: Model file or name of a model in the zoo.
        out: Also write figures, the numbers as JSON, and the algorithm as Python and LaTeX into this folder.
        json: Also write everything as JSON.
        check: Instead, check the paper's theory numerically, with MODEL too if given; exit code 1 if a check fails.
        as_code: Only print the algorithm, as a Python function that needs nothing but NumPy.
        latex: Only print the algorithm, as LaTeX.
        simplest: Instead, find the description with the fewest constants that is nearly as good (three minutes).
        ablate: Switch off one part at a time, and fit the rest again; this takes most of the time.
        sequences: Number of fresh sequences; by default 20000, or 500000 with --simplest.
        seed: Seed of the sequences: the same seed gives the same sequences.
    """
    check_seed(seed)
    if sequences is not None:
        whole_number("sequences", sequences, 1)
    if sum((check, as_code, latex, simplest)) > 1:
        raise InputError("Choose one of --check, --as-code, --latex and --simplest.")
    if as_code or latex:
        terminal.refuse("--as-code and --latex only print", {"--out": out, "--json": json})
    if check:
        own = {
            "--noise": noise,
            "--features": features,
            "--weights": weights,
            "--noise-shape": noise_shape,
            "--mixture": mixture,
            "--sequences": sequences,
            "--examples without a model": model is None and examples is not None,
        }
        terminal.refuse("--check draws contexts of its own", own)
    if check or as_code or latex or simplest:
        terminal.refuse("Only the explanation switches parts off", {"--no-ablate": not ablate})
    terminal.check_files(json)
    if model is None:
        if not check:
            raise InputError("Name a model file, or ask for --check alone.")
        return _check(None, None, terminal.make_folder(out), json, seed)
    loaded, label = load(model), model_labels([model])[0]
    task = task_for({model: loaded}, noise, examples, features, weights, noise_shape, mixture)
    folder = terminal.make_folder(out)
    if check:
        return _check(loaded, task.typical_examples, folder, json, seed)
    if as_code or latex:
        learned = algorithm(loaded, task, label, seed, sequences)
        sys.stdout.write(learned.as_code() if as_code else learned.as_latex())
    elif loaded.registers and not simplest:
        _registers(explain_registers(loaded, task, label=label, sequences=sequences, seed=seed), folder, json)
    elif simplest:
        _simplest(loaded, task, folder, json, sequences or _SIMPLEST_SEQUENCES, seed)
    else:
        with terminal.Progress(1.0) as progress:
            explanation = explain_model(
                loaded, task, label=label, sequences=sequences, seed=seed, ablate=ablate, on_stage=progress.show
            )
        _explanation(explanation, folder, json)
    return 0


def _explanation(explanation: Explanation, folder: Path | None, json: Path | None) -> None:
    explain_tables.print_explanation(explanation)
    terminal.write_json(json, explanation.as_json())
    if folder is not None:
        learned = explanation.algorithm()
        texts = {"algorithm.py": learned.as_code(), "algorithm.tex": learned.as_latex()}
        figures = analysis_figures.all_figures(explanation)
        _write_files(folder, figures, "explanation.json", explanation.as_json(), texts)


def _registers(explained: RegisterExplanation, folder: Path | None, json: Path | None) -> None:
    explain_tables.print_registers(explained)
    terminal.write_json(json, explained.as_json())
    if folder is not None:
        _write_files(folder, {}, "explanation.json", explained.as_json())


def _check(
    model: LinearTransformer | None, examples: int | None, folder: Path | None, json: Path | None, seed: int
) -> int:
    checks = theory.run_checks(seed, model, examples)
    explain_tables.print_checks(checks)
    terminal.write_json(json, checks)
    if folder is not None:
        with terminal.Progress(1.0) as progress:
            curves = theory.theory_curves(seed, model, examples, progress.show)
        record = {"checks": checks, "curves": curves}
        _write_files(folder, theory_figures.theory_figures(curves), "theory.json", record)
    return 0 if all(check.passed for check in checks) else 1


def _simplest(
    model: LinearTransformer, task: Task, folder: Path | None, json: Path | None, sequences: int, seed: int
) -> None:
    references = baselines_for(task, ("adarr", "bayes"))
    with terminal.Progress(1.0) as progress:
        descriptions = simplest_descriptions(
            model, task, sequences=sequences, seed=seed, references=references, on_stage=progress.show
        )
    explain_tables.print_simplest(descriptions)
    terminal.write_json(json, descriptions)
    if folder is not None:
        figures = {"simplest": analysis_figures.ladder_figure(descriptions)}
        _write_files(folder, figures, "simplest.json", descriptions)


def _write_files(
    folder: Path, figures: Mapping[str, Any], name: str, record: Any, texts: Mapping[str, str] | None = None
) -> None:
    """Write figures, each in two formats, a record under ``name``, and texts under their names."""
    from ridgeformer.plots.render import save_figure  # brings in matplotlib

    count = sum(len(save_figure(figure, folder, stem)) for stem, figure in figures.items())
    terminal.write_json(folder / name, record)
    for file, text in (texts or {}).items():
        write_whole(folder / file, text.encode())
    terminal.say(f"Files: {count} figures, {', '.join([name, *(texts or {})])} in {folder}.")

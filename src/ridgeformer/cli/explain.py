"""``ridgeformer explain``: a learned algorithm taken apart."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from ridgeformer.cli.evaluate import model_labels
from ridgeformer.cli.terminal import File, Folder, check_folders, output_console, write_json
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, shortened, whole_number

_PIPE_WIDTH = 160  # columns of the widest table
_PLAIN_SECONDS = 10.0  # between lines when there is no terminal; short work stays silent
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
    noise: Annotated[str | None, tyro.conf.arg(metavar="SPEC")] = None,
    context: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    sequences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
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
        ablate: Switch parts off one at a time, and fit the rest anew (most of the time this takes).
        noise: Prior of σ, such as uniform:5; by default what the model was trained on.
        context: Examples in a context; by default what the model was trained on.
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
    check_folders(json)
    if json is not None and json.is_dir():
        raise InputError(f"{shortened(str(json))} is a folder; --json names a file.")
    if model is None and not check:
        raise InputError("Name a model file, or ask for --check alone.")
    loaded, label = _load(model)
    task = None if loaded is None else _task(loaded, noise, context)
    if check:
        return _check(loaded, task, _folder(out), json, seed)
    assert loaded is not None
    assert task is not None
    if as_code or latex:
        return _print_algorithm(label, loaded, task, as_code, seed, sequences)
    folder = _folder(out)
    if simplest:
        return _simplest(loaded, task, folder, json, sequences or _SIMPLEST_SEQUENCES, seed)
    return _explain(label, loaded, task, folder, json, ablate, sequences, seed)


def _explain(
    label: str,
    model: LinearTransformer,
    task: Task,
    folder: Path | None,
    json: Path | None,
    ablate: bool,
    sequences: int | None,
    seed: int,
) -> int:
    from ridgeformer.analysis.explanation import explain_model, explained_algorithm
    from ridgeformer.cli.explain_tables import print_explanation

    with _Progress() as progress:
        found = explain_model(
            model, task, label=label, sequences=sequences, seed=seed, ablate=ablate, on_stage=progress.show
        )
    console = output_console(_PIPE_WIDTH)
    print_explanation(found, console)
    if json is not None:
        write_json(json, found.as_json())
    if folder is not None:
        from ridgeformer.plots.analysis_figures import all_figures
        from ridgeformer.plots.style import save_figure

        written = [path for name, figure in all_figures(found).items() for path in save_figure(figure, folder, name)]
        write_json(folder / "explanation.json", found.as_json())
        learned = explained_algorithm(found)
        write_whole(folder / "algorithm.py", learned.as_code().encode())
        write_whole(folder / "algorithm.tex", learned.as_latex().encode())
        console.print(
            f"Files: {len(written)} figures, explanation.json, algorithm.py, algorithm.tex in {escape(str(folder))}."
        )
    return 0


def _check(
    model: LinearTransformer | None, task: Task | None, folder: Path | None, json: Path | None, seed: int
) -> int:
    from ridgeformer.analysis.explanation import plain
    from ridgeformer.cli.explain_tables import print_checks
    from ridgeformer.theory import run_checks

    examples = None if task is None else task.examples
    checks = run_checks(seed, model, examples)
    console = output_console(_PIPE_WIDTH)
    print_checks(checks, console)
    if json is not None:
        write_json(json, plain(checks))
    if folder is not None:
        from ridgeformer.plots.style import save_figure
        from ridgeformer.plots.theory_figures import theory_figures
        from ridgeformer.theory import theory_curves

        with _Progress() as progress:
            curves = theory_curves(seed, model, examples, progress.show)
        figures = theory_figures(curves)
        written = [path for name, figure in figures.items() for path in save_figure(figure, folder, name)]
        write_json(folder / "theory.json", {"checks": plain(checks), "curves": plain(curves)})
        console.print(f"Files: {len(written)} figures, theory.json in {escape(str(folder))}.", highlight=False)
    return 0 if all(found.passed for found in checks) else 1


def _print_algorithm(
    label: str, model: LinearTransformer, task: Task, as_code: bool, seed: int, sequences: int | None
) -> int:
    from ridgeformer.analysis.explanation import algorithm

    found = algorithm(model, task, label, seed, sequences)
    sys.stdout.write(found.as_code() if as_code else found.as_latex())
    return 0


def _simplest(
    model: LinearTransformer, task: Task, folder: Path | None, json: Path | None, sequences: int, seed: int
) -> int:
    from ridgeformer.analysis.explanation import plain, task_as_json
    from ridgeformer.analysis.few_constants import simplest
    from ridgeformer.baselines import AdaRR, Bayes
    from ridgeformer.cli.explain_tables import print_simplest
    from ridgeformer.plots.analysis_figures import ladder_figure
    from ridgeformer.plots.style import save_figure

    with _Progress() as progress:
        found = simplest(
            model,
            task,
            sequences=sequences,
            seed=seed,
            references={"AdaRR": AdaRR(), "Bayes": Bayes(task.prior)},
            on_stage=progress.show,
        )
    print_simplest(found, output_console(_PIPE_WIDTH))
    record = {"task": task_as_json(task), **{k: v for k, v in plain(found).items() if k != "task"}}
    if json is not None:
        write_json(json, record)
    if folder is not None:
        write_json(folder / "simplest.json", record)
        save_figure(ladder_figure(found), folder, "simplest")
    return 0


class _Progress:
    """A spinner with the stage on a terminal, a plain line now and then elsewhere; on stderr."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._shown = time.monotonic()

    def __enter__(self) -> _Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, stage: str, share: float) -> None:
        """``share`` of the stage, or of all of the work, is done."""
        text = f"{stage}, {share:.0%}" if share > 0 else stage
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._shown >= _PLAIN_SECONDS:
            self._shown = time.monotonic()
            self._console.print(text, highlight=False, soft_wrap=True)


def _load(name: str | None) -> tuple[LinearTransformer | None, str]:
    """The model and its label."""
    if name is None:
        return None, ""
    import ridgeformer

    return ridgeformer.load(name), model_labels([name])[0]


def _task(model: LinearTransformer, noise: str | None, context: int | None) -> Task:
    """What to draw: as asked, else as the model was trained, else the defaults of `Task`."""
    if noise is not None and context is not None:
        return Task(model.dim, context, noise)
    from ridgeformer.analysis.explanation import trained_on

    told = trained_on(model) or Task()
    return Task(model.dim, told.examples if context is None else context, told.prior if noise is None else noise)


def _folder(out: Path | None) -> Path | None:
    """The folder to write into, made if it is not there."""
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as failed:
            raise InputError(f"Cannot make the folder {shortened(str(out))}: {failed.strerror or failed}.") from failed
    return out

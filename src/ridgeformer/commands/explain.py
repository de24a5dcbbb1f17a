"""``ridgeformer explain``: a learned algorithm taken apart."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from ridgeformer.checks import shortened, whole_number
from ridgeformer.commands.evaluate import model_labels
from ridgeformer.errors import InputError
from ridgeformer.model import LinearTransformer
from ridgeformer.storage import write_whole
from ridgeformer.streams import check_seed
from ridgeformer.task import Task

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
_Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
_PIPE_WIDTH = 160  # columns of the widest table
_PLAIN_SECONDS = 10.0  # between lines when there is no terminal; short work stays silent
_SIMPLEST_SEQUENCES = 500_000


def explain(
    model: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="MODEL")]] = None,
    out: _Folder = None,
    json: _File = None,
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
        out: Also write figures (SVG and PNG), explanation.json and the algorithm as code into this folder.
        json: Also write everything as JSON.
        check: Hold the paper's theory against numbers instead, with the model if there is one; exit code 1 if it fails.
        as_code: Print the algorithm as a Python function that needs NumPy only, and nothing else.
        latex: Print the algorithm as LaTeX, and nothing else.
        simplest: Look for the fewest constants that do nearly as well as the model instead (three minutes).
        ablate: Switch parts off one at a time, and fit the rest anew (half a minute for four layers).
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
    if json is not None and not json.parent.is_dir():
        raise InputError(f"There is no folder {shortened(str(json.parent))} to write {json.name} in.")
    if model is None and not check:
        raise InputError("Name a model file, or ask for --check alone.")
    loaded, label = _load(model)
    task = None if loaded is None else _task(label, loaded, noise, context)
    if check:
        return _check(loaded, task, json, seed)
    assert loaded is not None
    assert task is not None
    if as_code or latex:
        return _print_algorithm(label, loaded, task, as_code, seed)
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
    from ridgeformer.analysis.tables import print_explanation

    with _Progress() as progress:
        found = explain_model(
            model, task, label=label, sequences=sequences, seed=seed, ablate=ablate, on_stage=progress.show
        )
    console = _console()
    print_explanation(found, console)
    if json is not None:
        _write_json(json, found.as_json())
    if folder is not None:
        from ridgeformer.analysis.figures import all_figures
        from ridgeformer.analysis.style import save_figure

        written = [path for name, figure in all_figures(found).items() for path in save_figure(figure, folder, name)]
        _write_json(folder / "explanation.json", found.as_json())
        learned = explained_algorithm(found)
        write_whole(folder / "algorithm.py", learned.as_code().encode())
        write_whole(folder / "algorithm.tex", learned.as_latex().encode())
        console.print(f"Files: {len(written)} figures, explanation.json, algorithm.py, algorithm.tex in {folder}.")
    return 0


def _check(model: LinearTransformer | None, task: Task | None, json: Path | None, seed: int) -> int:
    from dataclasses import asdict

    from ridgeformer.analysis.explanation import plain
    from ridgeformer.analysis.tables import print_checks
    from ridgeformer.theory import run_checks

    checks = run_checks(seed, model, None if task is None else task.context)
    print_checks(checks, _console())
    if json is not None:
        _write_json(json, [plain(asdict(found)) for found in checks])
    return 0 if all(found.passed for found in checks) else 1


def _print_algorithm(label: str, model: LinearTransformer, task: Task, as_code: bool, seed: int) -> int:
    from ridgeformer.analysis.explanation import algorithm

    found = algorithm(model, task, label, seed)
    sys.stdout.write(found.as_code() if as_code else found.as_latex())
    return 0


def _simplest(
    model: LinearTransformer, task: Task, folder: Path | None, json: Path | None, sequences: int, seed: int
) -> int:
    from ridgeformer.analysis.explanation import plain
    from ridgeformer.analysis.few_constants import simplest
    from ridgeformer.analysis.figures import ladder_figure
    from ridgeformer.analysis.style import save_figure
    from ridgeformer.analysis.tables import print_simplest
    from ridgeformer.baselines import AdaRR, Bayes

    with _Progress() as progress:
        found = simplest(
            model,
            task,
            sequences=sequences,
            seed=seed,
            references={"AdaRR": AdaRR(), "Bayes": Bayes(task.prior)},
            on_stage=progress.show,
        )
    print_simplest(found, _console())
    record = {"task": _plain_task(task), **{k: v for k, v in plain(found).items() if k != "task"}}
    if json is not None:
        _write_json(json, record)
    if folder is not None:
        _write_json(folder / "simplest.json", record)
        save_figure(ladder_figure(found), folder, "simplest")
    return 0


def _plain_task(task: Task) -> dict[str, Any]:
    from ridgeformer.analysis.explanation import task_as_json

    return task_as_json(task)


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


def _task(label: str, model: LinearTransformer, noise: str | None, context: int | None) -> Task:
    """What to draw: as asked, else as the model was trained, else the defaults of `Task`."""
    told = model.info.get("task", {})
    if not isinstance(told, Mapping) or not isinstance(told.get("noise", ""), str):
        raise InputError(f"{shortened(label)} does not say in a readable form what it was trained on.")
    default = Task()
    return Task(
        model.dim,
        told.get("context", default.context) if context is None else context,
        told.get("noise", default.prior.spec) if noise is None else noise,
    )


def _folder(out: Path | None) -> Path | None:
    """The folder to write into, made if it is not there."""
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as failed:
            raise InputError(f"Cannot make the folder {shortened(str(out))}: {failed.strerror or failed}.") from failed
    return out


def _console() -> Console:
    """Tables at full width when they go to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def _write_json(path: Path, value: Any) -> None:
    text = json_module.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n".encode())

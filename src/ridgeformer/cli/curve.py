"""``ridgeformer curve``: losses while one number of the task changes, as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from ridgeformer import evaluation
from ridgeformer.baselines import BASELINES, SOLVERS, reference_note
from ridgeformer.cli import terminal
from ridgeformer.cli.evaluate import load_models, task_for
from ridgeformer.core.random import check_seed
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, one_of, whole_number
from ridgeformer.evaluation.curve import OVERS, Curve
from ridgeformer.evaluation.statistics import Evaluation

_DEFAULT_BASELINES = ("adarr", "bayes")
_SOLVER_STEPS = 10  # if there is no model whose number of layers they could take
_OVER_HELP = f"The number that changes: {', '.join(OVERS)}. (default: layers)"
_BASELINES_HELP = (
    f"Baselines to compare with: {', '.join([*BASELINES, *(s.name.lower() for s in SOLVERS)])}, or the word none. By "
    "default adarr and bayes, and over layers also gd, cg and newton."
)


def curve(
    models: tyro.conf.Positional[Annotated[tuple[str, ...], terminal.argument("MODEL…")]] = (),
    over: Annotated[str, terminal.argument("NAME", _OVER_HELP)] = "layers",
    values: Annotated[tuple[float, ...], terminal.argument("X…")] = (),
    noise: terminal.Noise = None,
    examples: terminal.Examples = None,
    features: terminal.Features = None,
    weights: terminal.Weights = None,
    noise_shape: terminal.NoiseShape = None,
    mixture: terminal.MixtureText = None,
    baselines: Annotated[tuple[str, ...], terminal.argument("NAME…", _BASELINES_HELP)] = (),
    loss: bool = False,
    sequences: int = 10_000,
    seed: int = 0,
    out: terminal.Folder = None,
    json: terminal.File = None,
    csv: terminal.File = None,
) -> None:
    """Measure losses while one number changes: layers, examples, noise level, …

    With --over layers, the prediction that a model holds after each layer is compared with as many steps of gradient
    descent (GD), conjugate gradients (CG) and Newton's iteration.

    By default sequences are drawn as in the models' training; --noise, --examples, --features and so on change that.

    Args:
        models: Model files or names of models in the zoo.
        values: Values of the number that changes; by default a useful range.
        loss: Show losses instead of adjusted losses (the loss above that of the oracle, which is told σ).
        sequences: Number of fresh sequences at each value.
        seed: Seed of the sequences: the same seed gives the same sequences.
        out: Folder for the plot (SVG and PNG) and its numbers (JSON and CSV); by default curves/.
        json: Also write everything as JSON to this file.
        csv: Also write everything as CSV to this file.
    """
    whole_number("sequences", sequences, 1)
    check_seed(seed)
    terminal.check_files(json, csv)
    one_of("--over", over, OVERS)
    loaded = load_models(models)
    task = task_for(loaded, noise, examples, features, weights, noise_shape, mixture)
    predictors: dict[str, Any] = {**loaded, **_baselines(baselines, over, loaded)}
    if not predictors:
        raise InputError("Name at least one model, or a baseline with --baselines.")
    chosen = tuple(values) or None
    points = 1 if over == "layers" else len(chosen or tuple(OVERS[over].values(task)))
    with terminal.Progress(points * sequences) as progress:
        on_chunk = progress.stage(f"curve over {over}", points * sequences)
        found = evaluation.curve(predictors, task, over, chosen, sequences, seed, on_chunk)
    print_curve(found, loss)
    _write(found, loss, terminal.make_folder(out or Path("curves")), json, csv)


def _baselines(names: tuple[str, ...], over: str, models: dict[str, Any]) -> dict[str, Any]:
    """Baselines by label: entries of `BASELINES`, and solvers with as many steps as the deepest model has layers."""
    steps = max((model.layers for model in models.values()), default=_SOLVER_STEPS)
    solvers = {solver.name.lower(): solver for solver in SOLVERS}
    default = (*_DEFAULT_BASELINES, *(solvers if over == "layers" else ()))
    asked = default if not names else () if names == ("none",) else names
    chosen: dict[str, Any] = {}
    for name in asked:
        one_of("A baseline", name, [*BASELINES, *solvers])
        if name in solvers:
            chosen[solvers[name].name] = solvers[name](steps)
        else:
            chosen[BASELINES[name].label] = BASELINES[name]
    return chosen


def print_curve(found: Curve, loss: bool) -> None:
    """A row for each value, a column for each predictor."""
    what = "Loss" if loss else "Adjusted loss"
    title = f"{what} ± s.e. over {found.over}, {found.sequences:,} sequences a value, {found.task.setting}"
    heads = [found.over, *found.evaluations]
    rows = [
        [f"{value:g}", *(_cell(row[place], loss) for row in found.evaluations.values())]
        for place, value in enumerate(found.values)
    ]
    terminal.print_table(title, heads, rows, words=())
    everything = [one for row in found.evaluations.values() for one in row if one is not None]
    if any(one.tail_dominated for one in everything):
        terminal.say("†  The worst 1 % of the sequences make up more than half of this mean, so it says little.")
    terminal.say(reference_note(found.task))


def _cell(one: Evaluation | None, loss: bool) -> str:
    if one is None:
        return ""
    mean, error = (one.loss, one.loss_error) if loss else (one.adjusted_loss, one.standard_error)
    return terminal.error_text(mean, error) + (" †" if one.tail_dominated else "")


def _write(found: Curve, loss: bool, folder: Path | None, json: Path | None, csv: Path | None) -> None:
    """The plot and the numbers."""
    from ridgeformer.plots.curve_figures import curve_figure  # brings in matplotlib
    from ridgeformer.plots.render import save_figure

    assert folder is not None
    stem = f"{found.over}{'-loss' * loss}"
    files = save_figure(curve_figure(found, loss), folder, stem)
    terminal.write_json(folder / f"{stem}.json", found.as_json())
    write_whole(folder / f"{stem}.csv", found.as_csv().encode())
    terminal.write_json(json, found.as_json())
    if csv is not None:
        write_whole(csv, found.as_csv().encode())
    names = ", ".join([*(Path(file).name for file in files), f"{stem}.json", f"{stem}.csv"])
    terminal.say(f"Files: {names} in {folder}.")

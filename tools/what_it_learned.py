"""Write docs/what-it-learned.md, computed: ``python tools/what_it_learned.py MODEL --out docs`` (5 minutes).

Every number on the page is measured here, and every sentence that rests on one is checked against it: if a claim no
longer holds, the page is not written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tyro

import learned_page as page
import ridgeformer
from learned_page import Journey
from registers_study import recorded_section
from ridgeformer.analysis import Ablation, Explanation, Sample, Tuner, ablations, explain_model, model_from_omega
from ridgeformer.analysis import simplest as find_simplest
from ridgeformer.analysis.algorithm import recorded_task
from ridgeformer.analysis.diagonal import inert
from ridgeformer.analysis.few_constants import FORMS, ConstantForm, Description
from ridgeformer.analysis.layer_steps import step_sizes
from ridgeformer.baselines import BASELINES
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, token_rng
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.evaluation import Evaluation, evaluate
from ridgeformer.plots.analysis_figures import ablations_figure, filters_figure, implied_noise_figure, ladder_figure
from ridgeformer.plots.render import save_figure

PAGE = "what-it-learned.md"
_ELSEWHERE = (
    (5, 10, "uniform:5", 4),
    (20, 40, "uniform:5", 4),
    (10, 40, "uniform:5", 4),
    (10, 20, "uniform:3", 4),
    (10, 20, "uniform:7", 4),
    (10, 20, "categorical:1+3", 4),
    (10, 20, "uniform:5", 3),
    (10, 20, "uniform:5", 5),
    (10, 20, "uniform:5", 6),
)
"""(d, n, noise, layers) that the constants are tried on."""
_REFERENCES = ("constrr", "adarr", "tunedrr", "bayes")
_POOL = 32_768  # with fewer, fits of all ω explode on a few fresh sequences of some tasks
_SPREAD, _ITERATIONS = 0.3, 150  # of fits of a form
_TRACED = 4000  # contexts on which the energy is followed


def write_page(
    model: Annotated[str, tyro.conf.Positional],
    out: Path = Path("docs"),
    full: str | None = None,
    sequences: int = 500_000,
    seed: int = 0,
) -> int:
    """Write the page and its figures.

    Args:
        model: A trained diag model of four layers: a file or a name of the zoo.
        out: Folder of the page; figures go into its subfolder figures.
        full: A trained full model, for the section about full models.
        sequences: Fresh sequences that descriptions are measured on.
        seed: Names the sequences and the pool.
    """
    trained = ridgeformer.load(model)
    if trained.kind != "diag" or trained.layers != 4:
        raise InputError("The page is about a diag model of four layers: its sentences speak of those.")
    task = recorded_task(trained) or Task(trained.dim)
    made = {BASELINES[name].label: BASELINES[name].make(task) for name in _REFERENCES}
    references = {name: baseline for name, baseline in made.items() if baseline is not None}
    simplest = find_simplest(trained, task, sequences=sequences, seed=seed, references=references, on_stage=_say)
    three = page.named(simplest, page.THREE)
    explanation = explain_model(trained, task, label="trained", seed=seed, on_stage=_say)
    written_short = model_from_omega(three.omega, task.dim)
    short = explain_model(written_short, task, label="three constants", seed=seed, ablate=False)
    journeys = list(_journeys(three, seed))
    blocks = [
        *page.answer(simplest, model if full is None else f"{model} --full {full}"),
        *page.ladder(simplest),
        *page.why(short, three, journeys, energy_decay(three.omega, task, seed)),
        *page.roles(explanation),
        *page.elsewhere(simplest, journeys),
    ]
    if full is not None:
        blocks += page.of_full(*_explain_full(full, seed), explanation)
    blocks += recorded_section(out / "results" / "registers.json")
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    assert explanation.ablations is not None
    for name, figure in {
        "ladder": ladder_figure(simplest),
        "ablations": ablations_figure(explanation.ablations),
        "filters": filters_figure(short.filters, short.bands),
        "implied-noise": implied_noise_figure(short.implied),
    }.items():
        save_figure(figure, figures, f"what-it-learned-{name}")
    write_whole(out / PAGE, ("\n\n".join(blocks) + "\n").encode())
    return 0


def _journeys(three: Description, seed: int) -> Iterator[Journey]:
    """Every task elsewhere."""
    (form,) = [form for form in FORMS if form.name == three.name]
    for number, (dim, examples, noise, layers) in enumerate(_ELSEWHERE):
        _say(f"elsewhere: d = {dim}, n = {examples}, {noise}, {layers} layers", number / len(_ELSEWHERE))
        yield journey(form, tuple(three.constants.values()), Task(dim, examples, noise), layers, seed=seed)


def journey(
    form: ConstantForm,
    constants: Sequence[float],
    task: Task,
    layers: int,
    sequences: int = 100_000,
    seed: int = 0,
    pool: int = _POOL,
) -> Journey:
    """Measure ``form`` with these constants on ``task``, refit it on a pool of contexts, and free all ω."""
    tuner = Tuner(task, pool, seed)
    theta = form.fit(constants, layers, tuner, _ITERATIONS, _SPREAD, token_rng(seed, Purpose.EXPLORE, 1))
    refitted = form.omega(theta, layers, task)
    freed, _ = tuner.fit_omega(refitted, ~inert(layers))

    def measured(omega: Array) -> Evaluation:
        return evaluate(model_from_omega(omega, task.dim), task, sequences, seed)

    unchanged, decay = form.omega(constants, layers, task), energy_decay(refitted, task, seed)
    losses = measured(unchanged), measured(refitted)
    return Journey(task, layers, *losses, tuple(map(float, theta)), measured(freed), decay)


def energy_decay(omega: Array, task: Task, seed: int = 0) -> float:
    """By which factor the median energy λ falls from layer to layer in contexts of the lowest band of noise."""
    sample = Sample.draw(task, _TRACED, seed)
    lowest = sample.bands[0].label
    steps = step_sizes(model_from_omega(omega, task.dim), sample)
    energies = [step.energy / task.dim for step in steps if step.band == lowest]
    return float((energies[0] / energies[-1]) ** (1 / (len(energies) - 1)))


def _explain_full(name: str, seed: int) -> tuple[Explanation, tuple[Ablation, ...]]:
    """The model taken apart, and with parts switched off in all layers."""
    model = ridgeformer.load(name)
    if model.kind != "full":
        raise InputError(f"--full must name a full model, not a {model.kind} one.")
    task = recorded_task(model) or Task(model.dim)
    explanation = explain_model(model, task, seed=seed, ablate=False, on_stage=_say)
    return explanation, ablations(model, Sample.draw(task, seed=seed), Tuner(task, seed=seed), each_layer=False)


def _say(stage: str, share: float) -> None:
    sys.stderr.write(f"{stage}, {share:.0%}\n")


def main() -> None:
    """Entry point of the script."""
    try:
        code = tyro.cli(write_page)
    except RidgeformerError as wrong:
        sys.stderr.write(f"ridgeformer: {wrong}\n")
        sys.exit(2)
    sys.exit(code)


if __name__ == "__main__":
    main()

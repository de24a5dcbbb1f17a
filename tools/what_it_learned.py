"""docs/what-it-learned.md, computed: ``python -m what_it_learned MODEL --out docs`` (5 minutes).

Every number on the page is measured here, and every sentence that rests on one is checked against it: if a claim no
longer holds, the page is not written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import learned_page as page
import tyro

import ridgeformer
from ridgeformer.analysis.ablation import Ablation, ablations
from ridgeformer.analysis.explanation import Explanation, explain_model, trained_on
from ridgeformer.analysis.few_constants import Description, simplest
from ridgeformer.analysis.forms import FORMS, ConstantForm
from ridgeformer.analysis.omega import model_from_omega
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.samples import Sample
from ridgeformer.analysis.travel import Journey, energy_decay, journey
from ridgeformer.baselines import AdaRR, Bayes, ConstRR, TunedRR
from ridgeformer.core.storage import write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.core.predictor import Predictor
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
    task = trained_on(trained) or Task(trained.dim)
    found = simplest(trained, task, sequences=sequences, seed=seed, references=_references(task), on_stage=_say)
    three = page.named(found, page.THREE)
    apart = explain_model(trained, task, label="trained", seed=seed, on_stage=_say)
    written_short = model_from_omega(three.omega, task.dim)
    short = explain_model(written_short, task, label="three constants", seed=seed, ablate=False)
    journeys = list(_journeys(three, seed))
    blocks = [
        *page.answer(found, model if full is None else f"{model} --full {full}"),
        *page.ladder(found),
        *page.why(short, three, journeys),
        *page.roles(apart),
        *page.elsewhere(found, journeys),
    ]
    if full is not None:
        blocks += page.of_full(*_explain_full(full, seed), apart)
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    assert apart.ablations is not None
    for name, figure in {
        "ladder": ladder_figure(found),
        "ablations": ablations_figure(apart.ablations),
        "filters": filters_figure(short.filters, short.bands),
        "implied-noise": implied_noise_figure(short.implied),
    }.items():
        save_figure(figure, figures, f"what-it-learned-{name}")
    write_whole(out / PAGE, ("\n\n".join(blocks) + "\n").encode())
    return 0


def _journeys(three: Description, seed: int) -> Iterator[tuple[Journey, float]]:
    """Every task elsewhere, with the factor by which λ falls in a layer there."""
    form = _form(three.name)
    for number, (dim, context, noise, layers) in enumerate(_ELSEWHERE):
        _say(f"elsewhere: d = {dim}, n = {context}, {noise}, {layers} layers", number / len(_ELSEWHERE))
        seen = journey(form, tuple(three.constants.values()), Task(dim, context, noise), layers, seed=seed)
        yield seen, energy_decay(form.omega(seen.constants, layers, seen.task), seen.task, seed)[0]


def _form(name: str) -> ConstantForm:
    (form,) = [form for form in FORMS if form.name == name]
    return form


def _explain_full(name: str, seed: int) -> tuple[Explanation, tuple[Ablation, ...]]:
    """The model taken apart, and with parts switched off in all layers."""
    model = ridgeformer.load(name)
    if model.kind != "full":
        raise InputError(f"--full must name a full model, not a {model.kind} one.")
    task = trained_on(model) or Task(model.dim)
    found = explain_model(model, task, seed=seed, ablate=False, on_stage=_say)
    return found, ablations(model, Sample.draw(task, seed=seed), Tuner(task, seed=seed), each_layer=False)


def _references(task: Task) -> dict[str, Predictor]:
    chosen = ConstRR.tuned(task), AdaRR(), TunedRR.tuned(task), Bayes(task.prior)
    return {baseline.name: baseline for baseline in chosen}


def _say(stage: str, share: float) -> None:
    sys.stderr.write(f"{stage}, {share:.0%}\n")


def main() -> None:
    """Entry point of the module."""
    try:
        code = tyro.cli(write_page)
    except RidgeformerError as wrong:
        sys.stderr.write(f"ridgeformer: {wrong}\n")
        sys.exit(2)
    sys.exit(code)


if __name__ == "__main__":
    main()

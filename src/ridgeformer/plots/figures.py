"""All figures by name: the paper's by their numbers, then ours. `ridgeformer report` and the page read this list."""

from __future__ import annotations

from ridgeformer.plots.inside_figures import figure_4, figure_5, figure_7
from ridgeformer.plots.loss_figures import figure_1, figure_2, figure_3, figure_6
from ridgeformer.plots.our_figures import figure_bayes, figure_depth, figure_shift, figure_training
from ridgeformer.plots.specification import FigureEntry, FigureRegistry

FIGURES: FigureRegistry = FigureRegistry("figure")
"""To add a figure, write a function from `Results` to `Figure` in a file of its own, and an entry here."""
for _entry in (
    FigureEntry(
        "1",
        "Loss against layers, uniform noise",
        "What another layer brings to each kind of model. GD++ is linear in y. So it cannot see how noisy a sequence is, "
        "and it cannot be better than ridge regression with one penalty for all sequences (ConstRR). Hollow markers are "
        "the paper’s values; the black line is the Bayes limit.",
        ("table1",),
        figure_1,
    ),
    FigureEntry(
        "2",
        "Loss against the noise level",
        "A model that adapts follows the noise level from sequence to sequence. Outside the shaded levels it was never "
        "trained.",
        ("profiles",),
        figure_2,
    ),
    FigureEntry(
        "3",
        "Two or three noise levels",
        "Here σ takes one of a few values, and a model can learn to see which one.",
        ("table1", "profiles"),
        figure_3,
    ),
    FigureEntry(
        "4",
        "What the weights look like",
        "The matrices P and Q of each layer, on one scale. The lines separate the row and column of y.",
        ("weights",),
        figure_4,
    ),
    FigureEntry(
        "5",
        "The answer after each layer",
        "The prediction that a model would give after K of its layers. The loss need not fall at every layer: only the "
        "answer after the last layer is trained.",
        ("readouts",),
        figure_5,
    ),
    FigureEntry(
        "6",
        "Loss that is not adjusted",
        "As figure 2, but the loss of the oracle is not subtracted.",
        ("profiles",),
        figure_6,
    ),
    FigureEntry(
        "7",
        "The answer after each layer, by noise level",
        "One panel for each depth, one line for the answer after each layer.",
        ("readouts",),
        figure_7,
    ),
    FigureEntry(
        "bayes",
        "How far from the best possible",
        "Ours. How far the loss is above the Bayes limit, as a share of the limit: 0.05 is 5 % above. On average over "
        "sequences, nothing that is not told σ can be below the limit.",
        ("table1",),
        figure_bayes,
    ),
    FigureEntry(
        "training",
        "Loss against training time",
        "Ours. How long each model was trained, and how good it was then; the star is the finished model, measured on "
        "fresh sequences.",
        ("training",),
        figure_training,
    ),
    FigureEntry(
        "depth",
        "Deeper models, and more heads",
        "Ours. What more layers and more heads than the paper’s bring.",
        ("table1",),
        figure_depth,
    ),
    FigureEntry(
        "shift",
        "Sequences unlike those of the training",
        "Ours. The same models on other kinds of sequences.",
        ("shift",),
        figure_shift,
    ),
):
    FIGURES.add(_entry)

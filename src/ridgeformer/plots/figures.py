"""All figures by name: the paper's by their numbers, then ours. `ridgeformer report` and the page read this list."""

from __future__ import annotations

from ridgeformer.core.registry import Registry
from ridgeformer.plots import inside_figures, loss_figures, our_figures
from ridgeformer.plots.specification import FigureEntry

FIGURES: Registry[FigureEntry] = Registry("figure")
"""To add a figure, write a function from `Results` to `Figure` in a file of its own, and add an entry."""

_TABLE, _PROFILES, _READOUTS = ("table1",), ("profiles",), ("readouts",)
_1 = (
    "What another layer brings to each kind of model. GD++ is linear in y. So it cannot see how noisy a sequence is, "
    "and it cannot be better than ridge regression with one penalty for all sequences (ConstRR). Hollow markers are "
    "the paper’s values; the black line is the Bayes limit."
)
_2 = "A model that adapts follows the noise level from sequence to sequence. Outside the shade it was not trained."
_3 = "Here σ takes one of a few values, and a model can learn to see which one."
_4 = "The matrices P and Q of each layer, on one scale. The lines separate the row and column of y."
_5 = (
    "The prediction that a model would give after K of its layers. The loss need not fall at every layer: only the "
    "answer after the last layer is trained."
)
_6 = "As figure 2, but the loss of the oracle is not subtracted."
_7 = "One panel for each depth, one line for the answer after each layer."
_BAYES = (
    "Ours. How far the loss is above the Bayes limit, as a share of the limit: 0.05 is 5 % above. On average over "
    "sequences, nothing that is not told σ can be below the limit."
)
_TRAINING = "Ours. The loss while models were trained; the star is the finished model, measured on fresh sequences."
_DEPTH = "Ours. What more layers and more heads than the paper’s bring."
_SHIFT = "Ours. The same models on other kinds of sequences."
for _entry in (
    FigureEntry("1", "Loss against layers, uniform noise", _1, _TABLE, loss_figures.figure_1),
    FigureEntry("2", "Loss against the noise level", _2, _PROFILES, loss_figures.figure_2),
    FigureEntry("3", "Two or three noise levels", _3, ("table1", "profiles"), loss_figures.figure_3),
    FigureEntry("4", "What the weights look like", _4, ("weights",), inside_figures.figure_4),
    FigureEntry("5", "The answer after each layer", _5, _READOUTS, inside_figures.figure_5),
    FigureEntry("6", "Loss that is not adjusted", _6, _PROFILES, loss_figures.figure_6),
    FigureEntry("7", "The answer after each layer, by noise level", _7, _READOUTS, inside_figures.figure_7),
    FigureEntry("bayes", "How far from the best possible", _BAYES, _TABLE, our_figures.figure_bayes),
    FigureEntry("training", "Loss against training time", _TRAINING, ("training",), our_figures.figure_training),
    FigureEntry("depth", "Deeper models, and more heads", _DEPTH, _TABLE, our_figures.figure_depth),
    FigureEntry("shift", "Sequences unlike those of the training", _SHIFT, ("shift",), our_figures.figure_shift),
):
    FIGURES.add(_entry)

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
_2 = (
    "How good models are at each noise level. A model that adapts is good where σ is small and where it is large. "
    "Models were trained on the shaded noise levels only."
)
_3 = "Here σ is one of two or three values, and a model can learn to recognise which one."
_4 = (
    "The matrices P and Q of each layer, all with the same colours. The thin lines separate the row and the column of "
    "y from those of x."
)
_5 = (
    "The loss of the prediction that a model would give after K of its layers. It need not fall at every layer, "
    "because training looks only at the answer after the last layer."
)
_6 = "The same as figure 2, except that the loss of the oracle is not subtracted."
_7 = "Each panel has models of one depth, and each line is the answer after one layer."
_BAYES = (
    "Ours. How far the loss is above the Bayes limit, as a share of the limit: 0.05 is 5 % above. On average over "
    "sequences, nothing that is not told σ can be below the limit."
)
_TRAINING = "Ours. The loss during training. The star is the finished model, measured on fresh sequences."
_DEPTH = "Ours. Models with more layers or more heads than those of the paper."
_SHIFT = (
    "Ours. The same models on sequences that differ from those of their training. A ratio of 1 is as good as ridge "
    "regression that is told what changed."
)
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

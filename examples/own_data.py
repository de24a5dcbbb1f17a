"""Many small noisy regressions: what a trained transformer finds, compared with ridge regression.

Here the data are random: 500 groups of 20 measurements of 10 features. Each group has its own weights and its own noise
level. Scale your own features and weights to a variance of about 1, because the models were trained with such data.

    python examples/own_data.py
"""

import numpy as np

import ridgeformer as rf

rng = np.random.default_rng(0)
weights = rng.standard_normal((500, 10))
noise_level = rng.uniform(0, 5, size=500)
X = rng.standard_normal((500, 20, 10))
y = np.einsum("bnd,bd->bn", X, weights) + noise_level[:, None] * rng.standard_normal((500, 20))

model = rf.load("full-7-uniform-5")
context = rf.Context.from_tokens(X, y)
estimates = {
    "FULL, 7 layers": rf.implicit_weights(model, X, y),
    "AdaRR": rf.baselines.AdaRR().weights(context),
    "OLS": rf.baselines.OLS().weights(context),
    "Bayes limit": rf.baselines.Bayes("uniform:5").weights(context),
    "ridge, told σ": rf.baselines.Oracle(noise_level).weights(context),
}
for name, found in estimates.items():
    print(f"{name:16s} mean squared error of the weights {((found - weights) ** 2).sum(axis=1).mean():.3f}")

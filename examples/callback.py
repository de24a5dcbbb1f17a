"""A callback in five lines: it says when a run has become better than the number that the paper prints.

python examples/callback.py
"""

import ridgeformer as rf
from ridgeformer.training import StepInfo


def tell(info: StepInfo) -> None:
    """Called after every step."""
    if info.smoothed < 0.065 and info.step % 500 == 0:  # the paper's Table 1: full, 4 layers, σ ~ U(0, 5)
        print(f"step {info.total}, {info.stage}: better than printed, {info.smoothed:.4f}")


result = rf.train(rf.TrainConfig(kind="full", layers=4, noise="uniform:5", steps=4000), callbacks=[tell])
print(result.evaluation)

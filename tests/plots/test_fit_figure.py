"""The picture of a fit shows every group and the learned distribution, within the range of the groups."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from grouped import made_up_groups
from ridgeformer.estimators.tables import fit_table
from ridgeformer.plots.fit_figure import fit_figure
from ridgeformer.plots.render import save_figure
from ridgeformer.plots.specification import Chart


def test_both_panels_show_all_groups_and_can_be_drawn(tmp_path: Path) -> None:
    data = made_up_groups(30, 2, 8)
    frame = pd.DataFrame(data.X, columns=["a", "b"]).assign(g=data.groups, y=data.y)
    _, summary = fit_table(frame, "y", "g", ["a", "b"])
    figure = fit_figure(summary)
    noise, shrinkage = figure.panels
    assert isinstance(noise, Chart)
    assert isinstance(shrinkage, Chart)
    learned, own = noise.series
    assert learned.y[-1] == 1.0 or abs(learned.y[-1] - 1) < 1e-9
    assert len(own.x) == len(shrinkage.series[0].x) == 30
    assert noise.x.limits is not None
    assert noise.x.limits[0] < min(own.x)
    assert max(own.x) < noise.x.limits[1]
    assert save_figure(figure, tmp_path, "fit", ("png",))[0].stat().st_size > 1000

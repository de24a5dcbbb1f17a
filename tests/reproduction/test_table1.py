"""Table 1: verdicts at the rounding of the printed numbers, the record and its texts, and the measurement itself."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

import ridgeformer as rf
from made_up_results import QUICK_BASELINES
from ridgeformer.core.forward import token_predictions
from ridgeformer.core.predictor import Predictor
from ridgeformer.evaluation.compare import compare
from ridgeformer.reproduction import table1
from ridgeformer.reproduction.cells import PRIORS, Cell
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.table1 import Entry, Row, Table1, measure_table1, number, row_name

SEQUENCES = 2000
BASELINE_NAMES = ("constrr", "adarr", "tunedrr", "bayes")


def entry(method: str, layers: int | None, noise: str, loss: float, diverged: int = 0) -> Entry:
    numbers = (loss, loss / 1000, loss / 2, loss * 3, loss * 9)
    return Entry(method, layers, noise, *numbers, diverged, printed_loss(method, layers, noise), loss / 0.04)


@pytest.fixture
def table() -> Table1:
    """Made-up numbers: an infinite one, a zero, an exponent, a column in braces, and a cell that is missing."""
    return Table1(
        (
            entry("full", 7, "categorical:1+3", 0.008),
            replace(entry("gdpp", 1, "uniform:0", math.inf, diverged=3), bayes_ratio=None),
            replace(entry("gdpp", 4, "uniform:0", 9.91e-05), bayes_ratio=None),
            entry("full", 8, "uniform:5", 0.0444),
            entry("gdpp", 1, "uniform:5", 0.9),
            replace(entry("bayes", None, "uniform:5", 0.04), bayes_ratio=1.0),
            entry("adarr", None, "uniform:5", 0.068),
            entry("bayes", None, "uniform:0", 0.0),
            entry("bayes", None, "categorical:1+3", 0.007),
        ),
        sequences=SEQUENCES,
        seed=1,
    )


# --- verdicts ---------------------------------------------------------------------------------------------------------

# printed, half a unit of its last digit
BOUNDARIES = {
    ("gdpp", 1, "uniform:0"): (1.768, 5e-4),
    ("gdpp", 4, "uniform:0"): (9.91e-05, 5e-8),
    ("diag", 4, "uniform:0"): (1.19e-04, 5e-7),
    ("full", 7, "uniform:0"): (2.50e-12, 5e-15),
}


@pytest.mark.parametrize("cell", BOUNDARIES)
def test_verdict_without_sampling_errors_changes_at_half_a_unit_of_the_last_digit(cell: tuple[str, int, str]) -> None:
    printed, half = BOUNDARIES[cell]
    assert printed_loss(*cell) == printed
    verdicts = {
        step: replace(entry(*cell, printed + step * half), standard_error=0.0).verdict
        for step in (-1.01, -0.99, 0.0, 0.99, 1.01)
    }
    assert verdicts == {-1.01: "better", -0.99: "same", 0.0: "same", 0.99: "same", 1.01: "worse"}


def test_verdict_allows_three_standard_errors_of_both_numbers_beside_the_rounding() -> None:
    printed, half = BOUNDARIES["gdpp", 1, "uniform:0"]
    margin = half + 3 * math.hypot(3e-3, 4e-3)
    for step, verdict in ((-1.01, "better"), (-0.99, "same"), (0.99, "same"), (1.01, "worse")):
        ours = entry("gdpp", 1, "uniform:0", printed + step * margin)
        assert replace(ours, standard_error=3e-3, printed_error=4e-3).verdict == verdict


def test_printed_number_below_the_bound_of_linear_models_is_impossible_whatever_ours_is() -> None:
    printed, half = BOUNDARIES["gdpp", 1, "uniform:0"]
    for loss in (printed, printed + 1, math.inf):
        ours = replace(entry("gdpp", 1, "uniform:0", loss), printed_error=0.01)
        assert replace(ours, linear_bound=printed + 0.031 + half).verdict == "impossible as printed"
        assert replace(ours, linear_bound=printed + 0.029 + half).verdict != "impossible as printed"


def test_headline_counts_verdicts_and_names_best_and_worst(table: Table1) -> None:
    counts, best, worst = table.headline()
    assert counts == "4 models against the paper's numbers: 2 better, 1 same, 0 impossible as printed, 1 worse."
    assert best.startswith("Best on U5: FULL 8, 0.0444")
    assert worst.endswith("(GD++ 1 on U0).")
    assert max(map(len, table.headline())) <= 100


@pytest.mark.parametrize(
    ("cell", "loss", "verdict"),
    [
        (("adarr", None, "uniform:0"), 4e-4, "same"),  # printed as 0, which allows three decimals
        (("adarr", None, "uniform:0"), 6e-4, "worse"),
        (("full", 8, "uniform:5"), 0.04, ""),  # not in the paper
        (("bayes", None, "uniform:5"), 0.04, ""),
        (("gdpp", 1, "uniform:0"), math.inf, "worse"),
    ],
)
def test_verdict_on_zero_nothing_and_infinity(cell: tuple[str, int | None, str], loss: float, verdict: str) -> None:
    assert entry(*cell, loss).verdict == verdict


def test_verdicts_count_trained_models_only(table: Table1) -> None:
    found = {verdict: [(e.method, e.layers) for e in entries] for verdict, entries in table.verdicts().items()}
    printed = printed_loss("full", 7, "categorical:1+3")
    assert printed is not None
    assert printed > 0.0085  # else the first entry would not be better
    assert found == {
        "better": [("full", 7), ("gdpp", 1)],
        "same": [("gdpp", 4)],
        "worse": [("gdpp", 1)],
        "impossible as printed": [],
    }


# --- the record -------------------------------------------------------------------------------------------------------


def read_back(table: Table1) -> Table1:
    return Table1.from_json(json.loads(json.dumps(table.as_json(), allow_nan=False)))


def test_record_survives_json_and_back_with_infinite_losses(table: Table1) -> None:
    assert read_back(table) == table
    first, second, *_ = table.as_json()["entries"]
    assert first["verdict"] == "better"
    assert (second["adjusted_loss"], second["verdict"]) == (None, "worse")


def test_rows_and_columns_are_in_the_order_of_the_paper(table: Table1) -> None:
    assert table.columns == ("uniform:0", "uniform:5", "categorical:1+3")
    models = (Row("gdpp", 1), Row("gdpp", 4), Row("full", 7), Row("full", 8))
    assert table.rows == (*models, Row("adarr"), Row("bayes"))
    mixed = [entry(kind, layers, noise, 1.0) for noise in PRIORS for layers in (2, 1) for kind in ("full", "gdpp")]
    expected = (Row("gdpp", 1), Row("full", 1), Row("gdpp", 2), Row("full", 2))
    assert Table1(tuple(mixed), 2, 0).rows == expected
    several = replace(entry("full", 1, "uniform:5", 1.0), heads=2)
    wide = replace(entry("diag", 1, "uniform:5", 1.0), registers=1)
    assert Table1((wide, several, *mixed), 2, 0).rows == (*expected, Row("full", 1, 2), Row("diag", 1, registers=1))


def test_models_beyond_the_paper_are_marked_and_told_apart_from_those_with_one_head(table: Table1) -> None:
    several = replace(entry("full", 7, "uniform:5", 0.03), heads=2, printed=None)
    deeper = entry("full", 12, "uniform:5", 0.039)
    wider = Table1((*table.entries, several, deeper), table.sequences, table.seed)
    assert wider.entry("full", 7, "uniform:5", heads=2) == several
    assert wider.entry("full", 7, "categorical:1+3") == table.entry("full", 7, "categorical:1+3")
    assert [e for e in wider.entries if e.beyond] == [several, deeper]
    assert several.verdict == deeper.verdict == ""
    text = wider.as_markdown()
    assert "| FULL 7 × 2 heads (ours) |  | **0.0300** |  |" in text
    assert "| FULL 12 (ours) |  | 0.0390 |  |" in text
    assert text.count("(ours)") == 2
    assert read_back(wider) == wider


def test_models_with_registers_have_rows_of_their_own(table: Table1) -> None:
    wide = replace(entry("diag", 7, "uniform:5", 0.03), registers=2, printed=None)
    wider = Table1((*table.entries, entry("diag", 7, "uniform:5", 0.046), wide), table.sequences, table.seed)
    assert wider.entry("diag", 7, "uniform:5", registers=2) == wide
    assert wider.entry("diag", 7, "uniform:5") != wide
    assert (wide.beyond, wide.verdict) == (True, "")
    assert "| DIAG 7, 2 registers (ours) |  | **0.0300** |  |" in wider.as_markdown()
    assert wider.headline()[1].startswith("Best on U5: DIAG 7, 2 registers, 0.0300")
    assert max(map(len, wider.headline())) <= 100
    assert row_name("diag", 12, registers=1) == "DIAG 12, 1 register"
    assert list(csv.DictReader(io.StringIO(wider.as_csv())))[-1]["registers"] == "2"
    assert read_back(wider) == wider


def test_records_from_before_there_were_registers_have_none(table: Table1) -> None:
    values = table.as_json()
    for one in values["entries"]:
        del one["registers"]
    assert Table1.from_json(values) == table


def test_best_of_a_column_leaves_out_the_bayes_limit(table: Table1) -> None:
    assert table.best("uniform:5").layers == 8
    assert table.best("uniform:0").layers == 4
    assert table.best("categorical:1+3").method == "full"


def test_csv_has_a_line_for_each_entry_with_all_its_digits(table: Table1) -> None:
    rows = list(csv.DictReader(io.StringIO(table.as_csv())))
    for row, expected in zip(rows, table.entries, strict=True):
        values = asdict(expected) | {"verdict": expected.verdict}
        assert row == {name: "" if value is None else str(value) for name, value in values.items()}


# --- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (math.inf, "∞"), (2.5e-12, "2.50e-12"), (0.00049, "4.90e-04"), (0.0444, "0.0444"), (1.768, "1.768")],
)
def test_number_has_at_most_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_markdown_has_the_papers_number_in_brackets_and_the_best_of_a_column_in_bold(table: Table1) -> None:
    assert table.as_markdown().splitlines() == [
        "|  | U0 | U5 | {1,3} |",
        "| --- | --- | --- | --- |",
        "| GD++ 1 | ∞ (1.768) | 0.900 (0.907) |  |",
        "| GD++ 4 | **9.91e-05** (9.91e-05) |  |  |",
        "| FULL 7 |  |  | **0.0080** (0.01) |",
        "| FULL 8 |  | **0.0444** |  |",
        "| AdaRR |  | 0.0680 (0.068) |  |",
        "| Bayes limit | 0 | 0.0400 | 0.0070 |",
    ]


LATEX = r"""\begin{tabular}{lrrr}
\hline
$\sigma$ & U0 & U5 & $\{1,3\}$ \\
\hline
GD\texttt{++} 1 & $\infty$ {\footnotesize(1.768)} & 0.900 {\footnotesize(0.907)} &  \\
GD\texttt{++} 4 & \textbf{9.91e-05} {\footnotesize(9.91e-05)} &  &  \\
FULL 7 &  &  & \textbf{0.0080} {\footnotesize(0.01)} \\
FULL 8 &  & \textbf{0.0444} &  \\
AdaRR &  & 0.0680 {\footnotesize(0.068)} &  \\
Bayes limit & 0 & 0.0400 & 0.0070 \\
\hline
\end{tabular}
"""


def test_latex_is_a_tabular_with_escaped_braces_in_its_heads(table: Table1) -> None:
    assert table.as_latex() == LATEX


# --- the measurement --------------------------------------------------------------------------------------------------


@pytest.fixture
def _tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning takes seconds, and what the parameters are does not matter here."""
    monkeypatch.setattr(table1, "BASELINES", QUICK_BASELINES)


def gdpp(layers: int, scale: float = 0.05, seed: int = 0) -> rf.LinearTransformer:
    return rf.LinearTransformer.init("gdpp", layers=layers, dim=10, scale=scale, seed=seed, dtype=np.float64)


@pytest.mark.usefixtures("_tuned")
def test_measurement_is_compare_and_evaluate_on_the_same_sequences() -> None:
    models = {Cell("gdpp", 2, "uniform:5"): gdpp(2), Cell("gdpp", 1, "uniform:5"): gdpp(1)}
    others = {Cell("gdpp", 1, "uniform:5", 1): gdpp(1, seed=1), Cell("gdpp", 1, "uniform:4"): gdpp(1)}
    chunks: list[tuple[str, int]] = []
    found = measure_table1(models | others, ["uniform:5"], SEQUENCES, 3, lambda *chunk: chunks.append(chunk))
    assert (found.sequences, found.seed) == (SEQUENCES, 3)
    assert chunks[-1] == ("uniform:5", SEQUENCES)
    assert found.rows == (Row("gdpp", 1), Row("gdpp", 2), *map(Row, BASELINE_NAMES))
    task = rf.Task(noise="uniform:5")
    made = {name: QUICK_BASELINES[name].make(task) for name in BASELINE_NAMES}
    ridges: dict[str, Predictor] = {name: ridge for name, ridge in made.items() if ridge is not None}
    assert len(ridges) == len(BASELINE_NAMES)
    expected = compare({"1": gdpp(1), "2": gdpp(2)} | ridges, task, SEQUENCES, seed=3).evaluations
    for row, evaluation in zip(found.entries, expected.values(), strict=True):
        for name in ("adjusted_loss", "standard_error", "median", "p99", "maximum"):
            assert getattr(row, name) == getattr(evaluation, name)
        assert row.bayes_ratio == pytest.approx(evaluation.adjusted_loss / expected["bayes"].adjusted_loss)
        assert row.printed == printed_loss(row.method, row.layers, row.noise)
    alone = rf.evaluate(gdpp(2), task, SEQUENCES, seed=3)
    assert found.entries[1].adjusted_loss == pytest.approx(alone.adjusted_loss, rel=1e-9)
    other = rf.evaluate(gdpp(2), task, SEQUENCES, seed=4)
    assert found.entries[1].adjusted_loss != pytest.approx(other.adjusted_loss, rel=1e-3)  # the control


@pytest.mark.usefixtures("_tuned")
def test_measurement_tells_models_with_registers_from_those_without() -> None:
    cells = [Cell("diag", 2, "uniform:5", registers=registers) for registers in (0, 2)]
    models = {
        cell: rf.LinearTransformer.init("diag", layers=2, registers=cell.registers, scale=0.05, dtype=np.float64)
        for cell in cells
    }
    found = measure_table1(models, ["uniform:5"], SEQUENCES)
    plain, wide = (found.entry("diag", 2, "uniform:5", registers=registers) for registers in (0, 2))
    assert plain is not None
    assert wide is not None
    assert plain.adjusted_loss != wide.adjusted_loss
    assert (plain.printed, wide.printed) == (printed_loss("diag", 2, "uniform:5"), None)
    assert plain.printed_error is not None
    assert wide.printed_error is None
    assert wide.bayes_ratio is not None


@pytest.mark.usefixtures("_tuned")
def test_measurement_of_a_model_that_explodes_is_null_in_json_and_survives() -> None:
    model = gdpp(8, scale=3.0)
    found = measure_table1({Cell("gdpp", 8, "uniform:5"): model}, ["uniform:5"], 300)
    first = found.entries[0]
    assert first.adjusted_loss == math.inf
    assert first.diverged > 0
    assert "∞" in found.as_markdown()
    assert found.best("uniform:5").method != "gdpp"
    assert read_back(found) == found


@pytest.mark.usefixtures("_tuned")
def test_measurement_without_noise_has_no_ratio_to_a_limit_of_zero() -> None:
    found = measure_table1({Cell("gdpp", 1, "uniform:0"): gdpp(1)}, ["uniform:0"], 200)
    bayes = found.entry("bayes", None, "uniform:0")
    assert bayes is not None
    assert bayes.adjusted_loss < 1e-20
    for row in found.entries:
        assert row.bayes_ratio is None or math.isfinite(row.bayes_ratio)
    json.dumps(found.as_json(), allow_nan=False)


def test_printed_error_is_the_scatter_of_one_query_on_drawn_tokens() -> None:
    """The same by tokens: attention as printed, one query a sequence, ridge regression with the true σ as oracle."""
    trained, task, count = rf.load("diag-4-uniform-5"), rf.Task(noise="uniform:5"), 20_000
    drawn = task.draw_tokens(count, seed=5)
    predicted = token_predictions(trained, drawn.X, drawn.y, drawn.query[:, None])[:, 0]
    system = np.einsum("bni,bnj->bij", drawn.X, drawn.X) + drawn.sigma[:, None, None] ** 2 * np.eye(10)
    oracle = np.linalg.solve(system, np.einsum("bni,bn->bi", drawn.X, drawn.y)[..., None])[..., 0]
    best = np.einsum("bi,bi->b", oracle, drawn.query)
    losses = 0.5 * (predicted - drawn.target) ** 2 - 0.5 * (best - drawn.target) ** 2
    expected = losses.std() / math.sqrt(100_000)
    errors = table1.printed_errors({Row("diag", 4): trained}, task)
    assert errors[Row("diag", 4)] == pytest.approx(expected, rel=0.1)

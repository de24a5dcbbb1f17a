"use strict";
/* The words around the results: the problem and the numbers that matter, the claims, how it was made. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format, figureData } = ridgeformer;
  const { el } = dom;
  const HEADLINE_PRIOR = "uniform:5"; // the paper's main example

  const isModel = (entry) => entry.layers !== null;

  /** The numbers that matter, from the table alone; null where it does not have them. */
  function headline(table) {
    const judged = table.entries.filter((entry) => isModel(entry) && entry.verdict);
    const column = table.entries.filter(
      (entry) => entry.noise === HEADLINE_PRIOR && isModel(entry) && entry.adjusted_loss !== null,
    );
    const best = column.reduce((a, b) => (a && a.adjusted_loss <= b.adjusted_loss ? a : b), null);
    const limit = table.entries.find((entry) => entry.method === "bayes" && entry.noise === HEADLINE_PRIOR);
    return {
      best,
      limit: limit?.adjusted_loss ?? null,
      paper: column.filter((entry) => entry.printed !== null).sort((a, b) => a.printed - b.printed)[0] ?? null,
      judged: judged.length,
      matched: judged.filter((entry) => entry.verdict !== "worse").length,
      better: judged.filter((entry) => entry.verdict === "better").length,
    };
  }

  function fact(number, text) {
    return el("div", { class: "fact" }, el("dt", {}, number), el("dd", {}, text));
  }

  function facts(table) {
    const { best, limit, paper, judged, matched, better } = headline(table);
    const prior = format.prior(HEADLINE_PRIOR);
    const beside = [
      paper !== null && `the paper’s best, ${format.row(paper)}, has ${format.plain(paper.printed)}`,
      limit !== null && `nothing can be below ${format.loss(limit)}`,
    ]
      .filter(Boolean)
      .join("; ");
    return el(
      "dl",
      { class: "facts" },
      best &&
        fact(
          format.loss(best.adjusted_loss),
          `adjusted loss of our best model, ${format.row(best)}, for σ ~ ${prior}${beside ? `; ${beside}` : ""}.`,
        ),
      best?.bayes_ratio &&
        fact(
          format.ratio(best.bayes_ratio),
          "its loss over the Bayes limit: the best that anything can do that is not told σ.",
        ),
      judged > 0 &&
        fact(
          `${matched} of ${judged}`,
          `trained models match or beat the number that the paper printed for them; ${better} are better by more than its rounding.`,
        ),
    );
  }

  const lead = (task) =>
    `A transformer made only of linear attention reads ${task.context} examples of a hidden rule, y = ⟨w, x⟩ + noise, and predicts y at a new x. Every sequence has another w and another noise level σ. With each layer its prediction takes one more step of an optimiser that training invented: gradient descent with preconditioning, momentum, and a step size that adapts to the noise.`;

  /** The result at a glance: loss against layers for the headline's prior. */
  function picture(table) {
    const series = figureData.layerSeries(table.entries, HEADLINE_PRIOR).filter((one) => !one.points);
    if (!series.length) return null;
    const chart = ridgeformer.lineChart({
      title: `Loss against layers, σ ~ ${format.prior(HEADLINE_PRIOR)}`,
      x: { label: "layers", whole: true },
      y: { label: "adjusted loss", log: true },
      series,
      floor: figureData.floorOf(table.entries, HEADLINE_PRIOR),
      height: 300,
    });
    return el(
      "figure",
      { class: "panel" },
      el("figcaption", {}, `Each layer is one more step, σ ~ ${format.prior(HEADLINE_PRIOR)}`),
      chart,
    );
  }

  /**
   * The problem and the result.
   * @param {{dim: number, context: number}} task
   * @param {object} table
   */
  function problem(task, table) {
    return [
      el(
        "div",
        { class: "hero" },
        el(
          "div",
          {},
          el("p", { class: "kicker" }, "ridgeformer"),
          el("h1", { id: "problem-heading", tabindex: "-1" }, "Nobody tells it how noisy the data are"),
          el("p", { class: "lead" }, lead(task)),
        ),
        picture(table),
      ),
      facts(table),
      el(
        "p",
        { class: "explanation" },
        `How good can it get? Ridge regression that is told σ is the best there is: the oracle. The adjusted loss is the loss above the oracle’s, so zero is perfect, and one half of the squared error, as in the paper. Without being told σ, no predictor can be below the Bayes limit, which averages ridge regressions over what the data say about σ. Here x and w have ${task.dim} dimensions.`,
      ),
      el(
        "p",
        { class: "explanation" },
        "There are three kinds of model. FULL learns two whole matrices a layer. DIAG has four numbers a layer: how x and y move along x and y. GD++ has two of them, a preconditioner and a gradient step, and stays linear in y, so it cannot adapt. The paper is Vladymyrov, von Oswald, Sandler and Ge, ",
        el("cite", {}, "Linear Transformers are Versatile In-Context Learners"),
        ", NeurIPS 2024 (arXiv 2402.14180).",
      ),
    ];
  }

  /** The paper's claims with our verdicts. */
  function claims(record) {
    const known = new Set(["confirmed", "partly", "refuted"]);
    return el(
      "ul",
      { class: "claims" },
      record.claims.map(({ statement, verdict, numbers }) =>
        el(
          "li",
          {},
          el(
            "p",
            { class: "claim" },
            el("span", { class: known.has(verdict) ? `verdict ${verdict}` : "verdict" }, verdict),
            " ",
            statement,
          ),
          el("p", { class: "claim-numbers" }, numbers),
        ),
      ),
    );
  }

  function measured({ table1, profiles, readouts, shift }) {
    return [
      `Table 1: ${format.count(table1.sequences)} fresh sequences for each prior, stream ${table1.seed}`,
      profiles && `Profiles: ${format.count(profiles.sequences)} sequences at each noise level`,
      readouts &&
        `Read-outs: ${format.count(readouts.sequences)} sequences, ${format.count(readouts.level_sequences)} at each level, ${new Set(readouts.models.map((model) => model.seed)).size} seeds`,
      shift && `Shifts: ${format.count(shift.sequences)} sequences each`,
    ].filter(Boolean);
  }

  /** Commands, version, sequences and seeds. */
  function made({ version, records, commands, models }) {
    const steps = [
      [commands.training, "trains every model from scratch; can be interrupted and goes on"],
      [commands.table1, "measures the models that come with the package on fresh sequences"],
      ["ridgeformer report", "draws the figures and writes this page from the records; it never trains"],
    ];
    const absent = Object.keys(commands).filter((record) => !records[record]);
    return [
      el(
        "p",
        {},
        `Everything here was measured by ridgeformer ${version}, but for what is called the paper’s. The page holds the weights of ${models.length} models and runs them itself; it loads nothing and sends nothing.`,
      ),
      el(
        "dl",
        { class: "commands" },
        steps.map(([command, text]) => [el("dt", {}, el("code", {}, command)), el("dd", {}, text)]),
      ),
      el(
        "ul",
        { class: "measured" },
        measured(records).map((line) => el("li", {}, `${line}.`)),
      ),
      absent.map((record) => ridgeformer.missing(record, commands)),
    ];
  }

  ridgeformer.summary = { headline, problem, claims, made };
}

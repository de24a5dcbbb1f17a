"use strict";
/* The words around the results: the problem and the numbers that matter, the claims, how it was made. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format } = ridgeformer;
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
      matched: judged.filter((entry) => entry.verdict === "better" || entry.verdict === "same").length,
      impossible: judged.filter((entry) => entry.verdict === "impossible as printed").length,
      better: judged.filter((entry) => entry.verdict === "better").length,
    };
  }

  function fact(number, text) {
    return el("div", { class: "fact" }, el("dt", {}, number), el("dd", {}, text));
  }

  function facts(table) {
    const { best, limit, paper, judged, matched, better, impossible } = headline(table);
    const prior = format.prior(HEADLINE_PRIOR);
    const beside = [
      paper !== null && `the paper’s best, ${format.row(paper)}, has ${format.plain(paper.printed)}`,
      limit !== null && `the Bayes limit is ${format.loss(limit)}`,
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
          "is that loss divided by the Bayes limit, the lowest mean that a method can reach without being told σ.",
        ),
      judged > 0 &&
        fact(
          `${matched} of ${judged}`,
          `trained models match or beat the number that the paper printed for them: ${better} are better by more than three standard errors. ${impossible} printed numbers are lower than any model of that kind can reach.`,
        ),
    );
  }

  const lead = (task) =>
    `A transformer made only of linear attention reads ${task.examples} examples (x, y) of a hidden rule, y = ⟨w, x⟩ + noise, and predicts y at a new x. The examples and the new x are one sequence. Every sequence has its own weights w and its own noise level σ, and the model is told neither. Training turns the layers into the steps of an optimiser: gradient descent with preconditioning, momentum, and a step size that adapts to the noise.`;

  /** One model, read out after each of its own layers; nothing if the record of read-outs is missing. */
  function picture(figure) {
    const chart = figure?.views[0].rows[0].panels[0];
    if (!chart) return null;
    return el(
      "figure",
      { class: "panel" },
      el("figcaption", {}, chart.title),
      ridgeformer.lineChart({ ...chart, height: 300 }),
      el(
        "p",
        { class: "chart-note" },
        "This is the loss if the model ended after each layer. It need not fall at every layer, because training looks only at the last answer.",
      ),
    );
  }

  /** What methods are, by the sentences of their registry; `chosen` tells which are meant. */
  function definitions(chosen) {
    const shown = Object.entries(ridgeformer.methods).filter(([name, { summary }]) => summary && chosen(name));
    const lines = shown.map(([, { label, summary }]) => [el("dt", {}, label), el("dd", {}, summary)]);
    return el("dl", { class: "commands definitions" }, lines);
  }
  const inTable = (table) => (name) => table.entries.some((entry) => entry.method === name);

  const PAPER = "https://arxiv.org/abs/2402.14180";

  /** The problem and the result. */
  function problem({ task, table1, picture: figure }) {
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
        picture(figure),
      ),
      facts(table1),
      el(
        "p",
        { class: "explanation" },
        `How good can a model be? The oracle is ridge regression that is told σ: on average over sequences nothing is better. The adjusted loss is the loss minus the oracle’s loss, so zero is perfect; a loss is half the squared error, as in the paper. A method that is not told σ cannot be below the Bayes limit on average. Here x and w have ${task.dim} dimensions.`,
      ),
      el("p", { class: "explanation" }, "Models are compared with these methods:"),
      definitions(inTable(table1)),
      el(
        "p",
        { class: "explanation" },
        "There are three kinds of model. FULL learns two whole matrices for each layer. DIAG learns four numbers for each layer: how much x and y change by multiples of x and of y. GD++ has two of the four, one for a preconditioner and one for a gradient step. GD++ is linear in y: twice the y give twice the answer, so it cannot adapt to the noise. The paper is Vladymyrov, von Oswald, Sandler and Ge, ",
        el("cite", {}, "Linear Transformers are Versatile In-Context Learners"),
        ", NeurIPS 2024 (",
        el("a", { href: PAPER, rel: "noreferrer" }, "arXiv 2402.14180"),
        ").",
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

  /** Commands, version, sequences and seeds. */
  function made({ version, missing, measured, commands, models }) {
    const steps = [
      [commands.training, "trains every model from scratch; after an interruption, the same command continues"],
      [commands.table1, "measures the models that come with the package on fresh sequences"],
      ["ridgeformer report", "draws the figures and writes this page from the records; it never trains"],
    ];
    return [
      el(
        "p",
        {},
        `Everything here was measured by ridgeformer ${version}, except the numbers that are called the paper’s. The page holds the weights of ${models.length} models and runs them itself; it loads nothing and sends nothing.`,
      ),
      el(
        "dl",
        { class: "commands" },
        steps.map(([command, text]) => [el("dt", {}, el("code", {}, command)), el("dd", {}, text)]),
      ),
      el(
        "ul",
        { class: "measured" },
        measured.map((line) => el("li", {}, line)),
      ),
      missing.map((record) => ridgeformer.missing(record, commands)),
    ];
  }

  ridgeformer.summary = { problem, definitions, inTable, claims, made };
}

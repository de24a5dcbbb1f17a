"use strict";
// The numbers of the explorer: one row for each layer, and one for each baseline.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.table = (() => {
  const { el, fill } = ridgeformer.dom;
  const { COMPARED, labelOf } = ridgeformer.explorer.results;
  /** Keys of readings, and what their columns are called. */
  const COLUMNS = [
    { key: "prediction", head: "Prediction", unit: "⟨ŵ, xₜ⟩" },
    { key: "residual", head: "Residual", unit: "mean square" },
    { key: "steps", head: "Step", unit: "n η" },
    { key: "alignment", head: "Alignment", unit: "cos" },
    { key: "rescaling", head: "Rescaling", unit: "1 + δ" },
    { key: "loss", head: "Error", unit: "½‖ŵ − w‖²" },
    { key: "adjusted", head: "From oracle", unit: "½‖ŵ − w*‖²" },
  ];

  const OF_ALL = ["prediction", "residual", "loss", "adjusted"]; // what baselines have too

  /** A number of the table: four digits, or a word if the model has run away. */
  function text(value) {
    if (!Number.isFinite(value)) return "diverged";
    const size = Math.abs(value);
    const plain = value === 0 || (size >= 1e-3 && size < 1e5);
    const short = plain ? String(Number(value.toPrecision(4))) : value.toExponential(2);
    return short.replaceAll("-", "−").replace("e+", "e");
  }

  /**
   * @returns {{element: HTMLElement, update: (settings: object, model: object, result: object) => void}}
   */
  return function numbersTable() {
    const target = el("data", { id: "explorer-target" });
    const heads = COLUMNS.map(({ head, unit }) => el("th", { scope: "col" }, head, el("small", {}, unit)));
    const body = el("tbody", {});
    const baselineBody = el("tbody", { class: "explorer-baselines" });
    const cells = new Map();
    let layers = 0;

    /** A row whose cells are known by the name of the row and the key of the column. */
    function row(name, header, keys) {
      const filled = COLUMNS.map(({ key }) => {
        if (!keys.includes(key)) return el("td", {}, "");
        const number = el("data", { id: `explorer-${name}-${key}` });
        cells.set(`${name}-${key}`, number);
        return el("td", {}, number);
      });
      return el("tr", { id: `explorer-row-${name}` }, el("th", { scope: "row" }, header), filled);
    }

    /** Rows of the layers; those of the baselines never change. */
    function build(model) {
      const keys = COLUMNS.map(({ key }) => key);
      const layer = (_, index) => row(`layer-${index + 1}`, `Layer ${index + 1}`, keys);
      fill(body, Array.from({ length: model.layers }, layer));
      layers = model.layers;
    }

    /** The value in full, for programs, and rounded, for people. */
    function show(node, value) {
      node.value = String(value);
      const short = text(value);
      if (node.textContent !== short) fill(node, short);
    }

    fill(
      baselineBody,
      COMPARED.map((name) => row(name, labelOf(name), OF_ALL)),
    );
    return {
      element: el(
        "section",
        { class: "explorer-table", "aria-label": "Numbers" },
        el("h3", {}, "This one sequence, layer by layer"),
        el(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of every layer" },
          el(
            "table",
            { class: "plain" },
            el("caption", {}, "The target of this query is ", target, "."),
            el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "After"), heads)),
            body,
            baselineBody,
          ),
        ),
        el(
          "p",
          { class: "explorer-note" },
          "Prediction: the answer at the query xₜ. Residual: the mean of (y − ⟨ŵ, x⟩)² over the examples. Step n η: η is ",
          "the size of the gradient step that is nearest to what the layer adds to ŵ; times the number of examples n, ",
          "1 is about a full step. Alignment: the cosine between that gradient step and what the layer adds. ",
          "Rescaling: the factor by which the layer multiplies ŵ. On one sequence, a model or OLS can be better than ",
          "the oracle by luck; on average over many sequences, nothing is better.",
        ),
        ridgeformer.summary.definitions((name) => COMPARED.includes(name)),
      ),
      update(settings, model, result) {
        if (layers !== model.layers) build(model);
        show(target, result.context.target);
        result.layers.forEach((layer, index) => {
          const values = { ...layer, steps: layer.step * settings.examples };
          for (const { key } of COLUMNS) show(cells.get(`layer-${index + 1}-${key}`), values[key]);
          const chosen = index + 1 === (settings.layer ?? model.layers);
          body.rows[index].classList.toggle("chosen", chosen);
        });
        COMPARED.forEach((name, index) => {
          const reading = result.baselines[name];
          baselineBody.rows[index].hidden = !reading;
          for (const key of OF_ALL) if (reading) show(cells.get(`${name}-${key}`), reading[key]);
        });
      },
    };
  };
})();

"use strict";
// The controls of the explorer: which model, and which sequence it is shown.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.controls = (() => {
  const { el, fill, choice, select } = ridgeformer.dom;
  const { method, prior } = ridgeformer.format;

  /** σ, n and the like in words, next to their sliders. */
  const decimals = (value, places) => value.toFixed(places).replace("-", "−");

  /**
   * A slider with its label and value.
   * @param {{id: string, label: string, symbol: string, min: number, max: number, step: number,
   *     onInput: (value: number) => void}} spec
   * @returns {{element: HTMLElement, input: HTMLInputElement, show: (value: number, text: string) => void}}
   */
  function slider({ id, label, symbol, min, max, step, onInput }) {
    const input = el("input", { id, type: "range", min, max, step, on: { input: () => onInput(Number(input.value)) } });
    const output = el("output", { for: id, id: `${id}-value` });
    const element = el(
      "div",
      { class: "explorer-slider" },
      el("label", { for: id }, label, " ", el("i", {}, symbol)),
      output,
      input,
    );
    const show = (value, text) => {
      if (Number(input.value) !== value) input.value = String(value);
      if (output.textContent !== text) fill(output, text);
      input.setAttribute("aria-valuetext", text);
    };
    return { element, input, show };
  }

  /**
   * A whole number to type or step through.
   * @param {{id: string, label: string, min: number, max: number, onChange: (value: number) => void}} spec
   * @returns {{element: HTMLElement, show: (value: number) => void}}
   */
  function wholeNumber({ id, label, min, max, onChange }) {
    const changed = () => {
      const value = Number(input.value);
      if (input.value !== "" && Number.isInteger(value) && value >= min && value <= max) onChange(value);
    };
    const input = el("input", { id, type: "number", min, max, step: 1, inputmode: "numeric", on: { input: changed } });
    const show = (value) => {
      if (Number(input.value) !== value || input.value === "") input.value = String(value);
    };
    return { element: el("div", { class: "field" }, el("label", { for: id }, label), input), show };
  }

  /**
   * The fields that choose a model; made again for each model, since what is on offer depends on it.
   * @param {object[]} models
   * @param {object} model the present one
   * @param {(model: object) => void} onModel
   * @returns {HTMLElement[]}
   */
  function modelFields(models, model, onModel) {
    const { choices, withChoice } = ridgeformer.explorer.settings;
    const offered = choices(models, model);
    const choose = (field) => (text) => {
      const value = offered[field].find((one) => String(one) === text);
      onModel(withChoice(models, model, field, value));
    };
    const radio = (field, label, text) =>
      choice({
        label,
        name: `explorer-${field}`,
        options: offered[field].map((value) => ({ value: String(value), text: text(value) })),
        value: String(model[field]),
        onChange: choose(field),
      });
    return [
      radio("kind", "Model", method),
      select({
        label: "Trained on noise levels σ from",
        id: "explorer-noise",
        options: offered.noise.map((value) => ({ value: String(value), text: prior(value) })),
        value: String(model.noise),
        onChange: choose("noise"),
      }),
      offered.heads.length > 1 || model.heads > 1 ? radio("heads", "Heads", String) : null,
      offered.registers.length > 1 || model.registers > 0 ? radio("registers", "Registers", String) : null,
      radio("layers", "Layers", String),
      el("p", { class: "explorer-note", id: "explorer-name" }, nameplate(model)),
    ];
  }

  /** What the model is called, and how good it was found to be. */
  function nameplate({ name, loss }) {
    const measured = loss === null ? null : [", mean adjusted loss ", ridgeformer.format.loss(loss)];
    return [el("b", {}, name), measured, "."];
  }

  /** Where the settings leave what the model was trained on; empty if they do not. */
  function warnings(settings, model) {
    const found = [];
    if (!ridgeformer.explorer.settings.trainedOn(model, settings.sigma)) {
      found.push(`never saw σ = ${decimals(settings.sigma, 2)} in training`);
    }
    if (model.examples !== null && settings.examples !== model.examples) {
      found.push(`was trained on ${model.examples} examples`);
    }
    return found.length ? `This model ${found.join(" and ")}.` : "";
  }

  /**
   * All controls.
   * @param {object[]} models encoded
   * @param {{onModel: (model: object) => void, onChange: (patch: object) => void}} told
   * @returns {{element: HTMLElement, update: (settings: object, model: object) => void}}
   */
  return function controls(models, { onModel, onChange }) {
    const limits = ridgeformer.explorer.settings;
    const modelBox = el("div", { class: "explorer-model" });
    const sigma = slider({
      id: "explorer-sigma", label: "Noise level", symbol: "σ", min: 0, max: 7, step: limits.SIGMA_STEP,
      onInput: (value) => onChange({ sigma: value }),
    });
    const trained = el("div", { class: "explorer-trained", "aria-hidden": "true" });
    sigma.element.append(trained);
    const examples = slider({
      id: "explorer-examples", label: "Examples", symbol: "n", min: 1, max: limits.MAX_EXAMPLES, step: 1,
      onInput: (value) => onChange({ examples: value }),
    });
    const outlier = slider({
      id: "explorer-outlier", label: "Outlier on", symbol: "y₁", min: 0, max: limits.MAX_OUTLIER,
      step: limits.OUTLIER_STEP,
      onInput: (value) => onChange({ outlier: value }),
    });
    const seed = wholeNumber({
      id: "explorer-seed", label: "Sequence no.", min: 0, max: limits.MAX_SEED,
      onChange: (value) => onChange({ seed: value }),
    });
    const query = wholeNumber({
      id: "explorer-query", label: "Query no.", min: 1, max: limits.QUERIES,
      onChange: (value) => onChange({ query: value }),
    });
    let shown = { seed: 0 };
    const next = () => onChange({ seed: shown.seed === limits.MAX_SEED ? 0 : shown.seed + 1 });
    const look = { type: "button", id: "explorer-new", class: "explorer-button", on: { click: next } };
    const button = el("button", look, "New sequence");
    const note = el("p", { class: "explorer-note", id: "explorer-warning" });
    let modelName = null;

    /** The model's own fields; whoever was using one of them goes on using it. */
    function showModel(model) {
      if (modelName === model.name) return;
      modelName = model.name;
      const focused = modelBox.contains(document.activeElement) ? document.activeElement : null;
      fill(modelBox, modelFields(models, model, onModel));
      if (focused?.type === "radio") modelBox.querySelector(`[name="${focused.name}"]:checked`)?.focus();
      else if (focused) modelBox.querySelector("select")?.focus();
      showRange(model);
    }

    /** The range of the σ slider, and on it the levels of the training. */
    function showRange(model) {
      const largest = limits.largestSigma(model);
      const range = ridgeformer.baselines.parsePrior(model.noise);
      sigma.input.max = String(largest);
      const share = (level) => `${(100 * level) / largest}%`;
      const mark = (from, to) => el("span", { style: { "--from": share(from), "--width": share(to - from) } });
      if (!range) fill(trained);
      else fill(trained, range.levels ? range.levels.map((level) => mark(level, level)) : mark(range.low, range.high));
    }

    return {
      element: el(
        "form",
        {
          class: "explorer-controls",
          "aria-label": "Model and sequence",
          on: { submit: (event) => event.preventDefault() },
        },
        modelBox,
        el(
          "div",
          { class: "explorer-sequence" },
          sigma.element,
          examples.element,
          outlier.element,
          el("div", { class: "explorer-numbers" }, seed.element, query.element),
          button,
          note,
        ),
      ),
      update(settings, model) {
        shown = settings;
        showModel(model);
        const spread = Math.sqrt(model.dim + settings.sigma ** 2); // the standard deviation of y, over w, x and noise
        sigma.show(settings.sigma, decimals(settings.sigma, 2));
        examples.show(settings.examples, String(settings.examples));
        const added = `+${decimals(settings.outlier, 1)} (${decimals(settings.outlier / spread, 1)} sd)`;
        outlier.show(settings.outlier, settings.outlier ? added : "none");
        seed.show(settings.seed);
        query.show(settings.query);
        fill(note, warnings(settings, model));
      },
    };
  };
})();

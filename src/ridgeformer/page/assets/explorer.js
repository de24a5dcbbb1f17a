"use strict";
// The explorer: the models themselves, running on whatever the controls make of a sequence.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

{
  let running = null;

  /**
   * Build the explorer and keep it up to date with its controls and the address.
   * @param {HTMLElement} container
   * @param {object[]} models encoded, see page/models.py
   */
  ridgeformer.startExplorer = (container, models) => {
    const { el, fill, announce } = ridgeformer.dom;
    const parts = ridgeformer.explorer;
    if (models.length === 0) {
      fill(container, el("p", {}, "There are no models in this page."));
      return;
    }
    const decoded = new Map();
    let settings = parts.settings.fromState(ridgeformer.state.read(), models);
    let result = null; // of these settings; null once they have changed
    let frame = 0;
    let speaks = false; // nothing is announced before anything was changed

    /** The present model, decoded when it is first asked for. */
    function currentModel() {
      const { model: name } = settings;
      if (!decoded.has(name)) decoded.set(name, ridgeformer.model.decodeModel(models.find((one) => one.name === name)));
      return decoded.get(name);
    }

    /** The numbers of the present settings. */
    function currentResult() {
      return (result ??= parts.results.compute(settings, currentModel()));
    }

    /** Show the present settings, now. */
    function show() {
      cancelAnimationFrame(frame);
      frame = 0;
      const [model, found] = [currentModel(), currentResult()];
      const errors = parts.results.errors(settings, model, found);
      for (const view of views) view.update(settings, model, found, errors);
      const sentence = summaryOf(settings, model, errors);
      fill(summary, sentence);
      if (speaks) announce(sentence);
    }

    /** Take over other settings: at most one drawing a frame, however fast a slider moves. */
    function change(patch, { write = true } = {}) {
      settings = { ...settings, ...patch };
      result = null;
      if (write) {
        ridgeformer.state.write(parts.settings.toState(settings, currentModel()));
        speaks = true;
      }
      if (!frame) frame = requestAnimationFrame(show);
    }

    /** Another model: what does not fit it, such as a switch of a layer that it does not have, falls back to the usual. */
    function changeModel(model) {
      change(parts.settings.withModel(settings, currentModel(), model, models));
    }

    /** The same, for readers who come from a table: with a noise level that the model knows. */
    function openModel(model) {
      changeModel(model);
      if (!parts.settings.trainedOn(model, settings.sigma)) change({ sigma: parts.settings.usualSigma(model) });
    }

    const chosenLayer = (layer) => (layer === currentModel().layers ? null : layer);
    const controls = parts.controls(models, { onModel: changeModel, onChange: change });
    const errors = parts.plots.errorChart(change);
    const scatter = parts.plots.scatterPlot({
      onPoints: (points) => change({ points }),
      onQuery: (query) => change({ query }),
    });
    const switches = parts.switches((off) => change({ off }));
    const weights = parts.plots.weightPanels((layer) => change({ layer: chosenLayer(layer) }));
    const table = parts.table();
    const views = [controls, errors, scatter, switches, weights, table];
    const summary = el("p", { class: "explorer-summary", id: "explorer-summary" });

    fill(
      container,
      el(
        "div",
        { class: "explorer" },
        controls.element,
        el("section", { class: "explorer-errors", "aria-label": "Error after each layer" }, summary, errors.element),
        scatter.element,
        weights.element,
        switches.element,
        table.element,
      ),
    );
    show();
    ridgeformer.state.subscribe((state) => change(parts.settings.fromState(state, models), { write: false }));
    const currentErrors = () => parts.results.errors(settings, currentModel(), currentResult());
    running = { models, openModel, currentResult, currentErrors, settings: () => settings, container };
  };

  /** The result in one sentence or two. */
  function summaryOf(settings, model, { layers, baselines }) {
    const text = (error) => ridgeformer.format.loss(Number.isFinite(error) ? error : null);
    const { COMPARED, labelOf } = ridgeformer.explorer.results;
    const shown = COMPARED.filter((name) => name in baselines);
    const others = shown.map((name) => `${labelOf(name)} ${text(baselines[name])}`).join(", ");
    const depth = model.layers === 1 ? "one layer" : `${model.layers} layers`;
    const what = settings.average ? "Mean error" : "Error";
    return `${what} of ${ridgeformer.format.method(model.kind)} after ${depth}: ${text(layers.at(-1))}. ${others}.`;
  }

  /**
   * Show a model by its name, as the table's cells do, and go there.
   * @param {string} name
   * @returns {boolean} whether the page has that model
   */
  ridgeformer.explorer.open = (name) => {
    const model = running?.models.find((one) => one.name === name);
    if (!model) return false;
    running.openModel(model);
    (running.container.closest("section") ?? running.container).scrollIntoView({ block: "start" });
    running.container.querySelector("input")?.focus({ preventScroll: true });
    return true;
  };

  /**
   * The sequence on show.
   * @returns {{X: number[][], y: number[], weights: number[], sigma: number, queries: number[][], query: number[],
   *     target: number}}
   */
  ridgeformer.explorer.context = () => running.currentResult().context;

  /**
   * All numbers on show, with what they belong to.
   * @returns {{settings: object, start: object, layers: object[], baselines: object, errors: object}} errors: as drawn
   */
  ridgeformer.explorer.result = () => {
    const { start, layers, baselines } = running.currentResult();
    const { off, ...others } = running.settings();
    return { settings: { ...others, off: [...off] }, start, layers, baselines, errors: running.currentErrors() };
  };
}

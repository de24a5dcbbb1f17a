"use strict";
// All numbers that the explorer shows, from its settings. Nothing here needs a document.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.results = (() => {
  const { dot, squaredDistance } = ridgeformer.linearAlgebra;
  const { MAX_EXAMPLES, QUERIES, MAX_SEED, AVERAGED } = ridgeformer.explorer.settings;

  /** What models are compared with, by their names in the registry of baselines, in the order of every list. */
  const COMPARED = ["ols", "adarr", "oracle", "bayes"];
  /** At one level of σ it is no limit: it is the best on average over the levels of the prior. */
  const labelOf = (name) => (name === "bayes" ? "Bayes predictor" : ridgeformer.format.method(name));

  /**
   * @typedef {object} Reading what weights are worth on a context
   * @property {number[]} weights ŵ
   * @property {number} loss ½‖ŵ − w‖², the mean of ½(ŷ − y_t)² over queries
   * @property {number} adjusted ½‖ŵ − w*_{σ²}‖², whose mean over sequences is the adjusted loss
   */
  /**
   * @typedef {object} Answers
   * @property {Reading} start of ŵ = 0, what a model starts from
   * @property {(Reading & import("./model.js").LayerResult)[]} layers
   * @property {Object<string, Reading | null>} baselines by name; no Bayes answer without a prior
   */

  /**
   * What a model and the baselines make of a sequence.
   * @param {object} sequence from drawSequence
   * @param {object} settings
   * @param {object} model decoded
   * @returns {Answers & {X: number[][], y: number[]}}
   */
  function answer(sequence, { sigma, examples, outlier, off }, model) {
    const { X, y } = ridgeformer.random.makeContext(sequence, { sigma, examples, outlier });
    const gram = ridgeformer.model.gramMatrix(X, y);
    const known = { dim: model.dim, examples, sigma, noise: model.noise };
    const found = ridgeformer.baselines.allBaselines(gram, known);
    const read = (weights) => ({
      weights,
      loss: squaredDistance(weights, sequence.weights) / 2,
      adjusted: squaredDistance(weights, found.oracle) / 2,
    });
    return {
      X,
      y,
      start: read(sequence.weights.map(() => 0)),
      layers: ridgeformer.model.runModel(model, gram, off).map((layer) => ({ ...layer, ...read(layer.weights) })),
      baselines: Object.fromEntries(COMPARED.map((name) => [name, found[name] && read(found[name])])),
    };
  }

  /**
   * All numbers of the sequence on show: answers, with their predictions for the query and their residuals.
   * @param {object} settings
   * @param {object} model decoded
   * @returns {Answers & {context: object}} every reading also has `prediction` <ŵ, x_t> and `residual`, the mean over
   *     the examples of (y_i − <ŵ, x_i>)²
   */
  function compute(settings, model) {
    const sequence = drawn(settings.seed, model.dim, QUERIES);
    const { X, y, start, layers, baselines } = answer(sequence, settings, model);
    const { weights, queries } = sequence;
    const query = queries[settings.query - 1];
    const more = (reading) =>
      reading && {
        ...reading,
        prediction: dot(reading.weights, query),
        residual: X.reduce((sum, x, i) => sum + (y[i] - dot(reading.weights, x)) ** 2, 0) / X.length,
      };
    return {
      context: { X, y, weights, sigma: settings.sigma, queries, query, target: dot(weights, query) },
      start: more(start),
      layers: layers.map(more),
      baselines: Object.fromEntries(Object.entries(baselines).map(([name, reading]) => [name, more(reading)])),
    };
  }

  /**
   * The errors to draw: of the sequence on show, or their means over it and those after it; against w or the oracle.
   * @param {object} settings
   * @param {object} model decoded
   * @param {Answers} result of compute
   * @returns {{start: number, layers: number[], baselines: Object<string, number>}} baselines without an answer, and
   *     the oracle where it is measured against itself, are left out
   */
  function errors(settings, model, result) {
    const key = settings.against === "oracle" ? "adjusted" : "loss";
    const following = (k) => answer(drawn((settings.seed + k) % (MAX_SEED + 1), model.dim, 0), settings, model);
    const all = settings.average ? Array.from({ length: AVERAGED }, (_, k) => following(k)) : [result];
    const mean = (pick) => all.reduce((sum, one) => sum + pick(one)[key], 0) / all.length;
    const same = (name) => key === "adjusted" && name === "oracle";
    const compared = COMPARED.filter((name) => result.baselines[name] && !same(name));
    return {
      start: mean((one) => one.start),
      layers: result.layers.map((_, layer) => mean((one) => one.layers[layer])),
      baselines: Object.fromEntries(compared.map((name) => [name, mean((one) => one.baselines[name])])),
    };
  }

  const kept = new Map();

  /** The sequence of a seed; kept, because sliders ask for the same ones again and again. */
  function drawn(seed, dim, queries) {
    const key = `${seed} ${dim} ${queries}`;
    if (!kept.has(key)) {
      if (kept.size > 4 * AVERAGED) kept.clear();
      kept.set(key, ridgeformer.random.drawSequence(seed, { dim, examples: MAX_EXAMPLES, queries }));
    }
    return kept.get(key);
  }

  return { COMPARED, labelOf, compute, errors };
})();

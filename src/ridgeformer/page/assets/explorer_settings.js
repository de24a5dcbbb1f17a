"use strict";
// What the explorer shows is decided by a few settings, and the settings by the address. Nothing here needs a document.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.settings = (() => {
  const { BLOCKS } = ridgeformer.model;
  const MAX_EXAMPLES = 60;
  const QUERIES = 200;
  const AVERAGED = 64; // sequences that take about two frames
  const MAX_OUTLIER = 40; // about ten standard deviations of y at d = 10
  const MAX_SEED = 2 ** 32 - 1;
  const SIGMA_STEP = 0.05;
  const OUTLIER_STEP = 0.5;
  const FIRST_MODEL = "diag-4-uniform-5";
  /** Where a choice of model starts, from the most to the least decisive. */
  const FIELDS = ["kind", "noise", "heads", "registers", "layers"];

  /**
   * @typedef {object} Settings
   * @property {string} model its name
   * @property {number} sigma σ
   * @property {number} examples n
   * @property {number} seed of the sequence
   * @property {number} outlier what is added to the first target
   * @property {Set<string>} off blocks switched off, such as "2xy"
   * @property {number} query 1 … QUERIES
   * @property {number | null} layer the layer whose weights are drawn; null for the last
   * @property {"queries" | "examples"} points what the scatter plot shows
   * @property {"w" | "oracle"} against what errors are measured against
   * @property {boolean} average whether they are means over AVERAGED sequences
   */

  /**
   * The largest σ that a model can be tried with: two beyond what it was trained on.
   * @param {{noise: string | null}} model
   * @returns {number}
   */
  function largestSigma(model) {
    return (ridgeformer.baselines.parsePrior(model.noise)?.high ?? 5) + 2;
  }

  /**
   * A noise level that a model was trained on.
   * @param {{noise: string | null}} model
   * @returns {number}
   */
  function usualSigma(model) {
    const prior = ridgeformer.baselines.parsePrior(model.noise);
    return prior?.levels ? prior.levels[0] : Math.min(2, prior?.high ?? 2);
  }

  /** Whether a model was trained on a noise level. */
  function trainedOn(model, sigma) {
    const prior = ridgeformer.baselines.parsePrior(model.noise);
    return !prior || (prior.levels ? prior.levels.includes(sigma) : sigma >= prior.low && sigma <= prior.high);
  }

  /** A number of the address within bounds, on the grid of its slider; the usual value if it is no number. */
  function bounded(text, usual, low, high, step) {
    const number = text === undefined || text.trim() === "" ? NaN : Number(text);
    if (!Number.isFinite(number)) return usual;
    const places = Math.max(0, Math.ceil(-Math.log10(step)));
    return Number(Math.min(Math.max(Math.round(number / step) * step, low), high).toFixed(places));
  }

  /**
   * Settings from the state of the address; whatever is missing or cannot be read gets its usual value.
   * @param {Object<string, string>} state
   * @param {object[]} models encoded
   * @returns {Settings}
   */
  function fromState(state, models) {
    const named = (name) => models.find((model) => model.name === name);
    const model = named(state.model) ?? named(FIRST_MODEL) ?? models[0];
    const layer = bounded(state.layer, model.layers, 1, model.layers, 1);
    return {
      model: model.name,
      sigma: bounded(state.sigma, usualSigma(model), 0, largestSigma(model), SIGMA_STEP),
      examples: bounded(state.examples, model.examples ?? 20, 1, MAX_EXAMPLES, 1),
      seed: bounded(state.seed, 1, 0, MAX_SEED, 1),
      outlier: bounded(state.outlier, 0, 0, MAX_OUTLIER, OUTLIER_STEP),
      off: parseOff(state.off ?? "", model),
      query: bounded(state.query, 1, 1, QUERIES, 1),
      layer: layer === model.layers ? null : layer,
      points: state.points === "examples" ? "examples" : "queries",
      against: state.against === "oracle" ? "oracle" : "w",
      average: state.average !== "no",
    };
  }

  /**
   * The reverse of fromState; null for what need not be in the address.
   * @param {Settings} settings
   * @param {object} model encoded
   * @returns {Object<string, string | null>}
   */
  function toState(settings, model) {
    return {
      model: settings.model,
      sigma: String(settings.sigma),
      examples: String(settings.examples),
      seed: String(settings.seed),
      outlier: settings.outlier ? String(settings.outlier) : null,
      off: writeOff(settings.off, model) || null,
      query: settings.query === 1 ? null : String(settings.query),
      layer: settings.layer === null ? null : String(settings.layer),
      points: settings.points === "queries" ? null : settings.points,
      against: settings.against === "w" ? null : settings.against,
      average: settings.average ? null : "no",
    };
  }

  /**
   * Settings for another model: kept, except what does not fit it, and read out after its last layer.
   * @param {Settings} settings
   * @param {object} present the model that they are for
   * @param {object} model
   * @param {object[]} models
   * @returns {Settings}
   */
  function withModel(settings, present, model, models) {
    const kept = Object.entries(toState(settings, present)).filter(([key, value]) => value !== null && key !== "layer");
    return fromState({ ...Object.fromEntries(kept), model: model.name }, models);
  }

  /**
   * The blocks that a model has: gdpp has none that read y.
   * @param {{kind: string}} model
   * @returns {string[]}
   */
  function blocksOf(model) {
    return model.kind === "gdpp" ? ["xx", "yx"] : BLOCKS;
  }

  /**
   * "xy,3yy" means ω_xy of all layers and ω_yy of the third.
   * @param {string} text
   * @param {object} model
   * @returns {Set<string>} such as "2xy"
   */
  function parseOff(text, model) {
    const off = new Set();
    for (const part of text.split(",")) {
      const [, digits, block] = part.match(/^(\d{0,4})(xx|xy|yx|yy)$/) ?? [];
      if (!block || !blocksOf(model).includes(block)) continue;
      for (let layer = 1; layer <= model.layers; layer++) {
        if (digits === "" || Number(digits) === layer) off.add(`${layer}${block}`);
      }
    }
    return off;
  }

  /**
   * The reverse of parseOff, as short as can be.
   * @param {Set<string>} off
   * @param {object} model
   * @returns {string}
   */
  function writeOff(off, model) {
    const layers = Array.from({ length: model.layers }, (_, layer) => layer + 1);
    return blocksOf(model)
      .flatMap((block) => {
        const single = layers.map((layer) => `${layer}${block}`).filter((key) => off.has(key));
        return single.length === model.layers ? [block] : single;
      })
      .join(",");
  }

  /**
   * What can be chosen beside a model: all kinds, the priors of its kind, the heads of its kind and prior, and so on.
   * Every value on offer leads to a model that exists.
   * @param {object[]} models
   * @param {object} model the present one
   * @returns {Object<string, (string | number)[]>} values of every field, in order
   */
  function choices(models, model) {
    const found = {};
    let left = models;
    for (const field of FIELDS) {
      found[field] = [...new Set(left.map((other) => other[field]))].sort(inOrder(field));
      left = left.filter((other) => other[field] === model[field]);
    }
    return found;
  }

  /** How the values of a field are sorted. */
  function inOrder(field) {
    const kinds = Object.keys(ridgeformer.methods ?? {});
    if (field === "kind") return (a, b) => kinds.indexOf(a) - kinds.indexOf(b);
    if (field !== "noise") return (a, b) => a - b;
    return ridgeformer.baselines.comparePriors;
  }

  /**
   * The model with another value of one field, and as many of the other values kept as models allow.
   * @param {object[]} models
   * @param {object} model
   * @param {string} field
   * @param {string | number} value
   * @returns {object}
   */
  function withChoice(models, model, field, value) {
    const wanted = { ...model, [field]: value };
    let left = models;
    for (const name of [field, ...FIELDS.filter((other) => other !== field)]) {
      const same = left.filter((other) => other[name] === wanted[name]);
      if (same.length > 0) left = same;
    }
    const distance = (other) => Math.abs(other.layers - wanted.layers);
    return left.reduce((best, other) => (distance(other) < distance(best) ? other : best));
  }

  return {
    MAX_EXAMPLES,
    QUERIES,
    AVERAGED,
    MAX_OUTLIER,
    MAX_SEED,
    SIGMA_STEP,
    OUTLIER_STEP,
    largestSigma,
    usualSigma,
    trainedOn,
    withModel,
    fromState,
    toState,
    blocksOf,
    choices,
    withChoice,
  };
})();

"use strict";
// What models are compared with, from the Gram matrix alone: the same formulas as ridgeformer.baselines in Python,
// where they are derived. w*_v = (Σ + v I)⁻¹ α in the eigenbasis of Σ, for any number of examples.
globalThis.ridgeformer ??= {};

ridgeformer.baselines = (() => {
  const { dot, symmetricEigen } = ridgeformer.linearAlgebra;
  /** Multiple of eps (‖w‖² s_max + λ) up to which a residual is rounding; measured in baselines/least_squares.py. */
  const ROUNDING = 16;
  /** Nodes and zooms of the rule for uniform priors; their accuracy is measured in baselines/posterior.py. */
  const NODES = 64;
  const COARSE = 24;
  const ZOOMS = 3;
  /** Logarithm below the peak at which the posterior is cut off. */
  const NEGLIGIBLE = 40;

  /**
   * @typedef {object} Fit least squares of least norm, in the eigenbasis of Σ
   * @property {number} examples n
   * @property {number[]} values s, of the min(n, d) directions that may hold data; 0 where one does not
   * @property {number[]} coordinates b = a / s
   * @property {number[][]} vectors
   * @property {number} residual ρ = Σ_i (y_i − ŷ_i)², exactly 0 if it is no more than rounding
   * @property {number} noiseVariance σ̂²
   */

  /**
   * Least squares.
   * @param {Float64Array} gram (d + 1) × (d + 1)
   * @param {number} dim d
   * @param {number} examples n
   * @returns {Fit}
   */
  function leastSquares(gram, dim, examples) {
    const size = dim + 1;
    const scatter = Float64Array.from({ length: dim * dim }, (_, i) => gram[Math.floor(i / dim) * size + (i % dim)]);
    const alpha = Array.from({ length: dim }, (_, i) => gram[i * size + dim]);
    const energy = gram[size * size - 1];
    const eigen = symmetricEigen(scatter, dim);
    const first = dim - Math.min(examples, dim);
    const vectors = eigen.vectors.slice(first);
    const raw = eigen.values.slice(first);
    const cross = vectors.map((vector) => dot(vector, alpha));
    const largest = raw.at(-1);
    const present = raw.map((value) => value > largest * dim * Number.EPSILON);
    const values = raw.map((value, j) => (present[j] ? value : 0));
    const coordinates = raw.map((value, j) => (present[j] ? cross[j] / value : 0));
    const rounding = ROUNDING * Number.EPSILON * (dot(coordinates, coordinates) * largest + energy);
    let residual = energy - dot(coordinates, cross);
    if (present.filter(Boolean).length >= examples || residual <= rounding) residual = 0;
    return { examples, values, coordinates, vectors, residual, noiseVariance: estimate() };

    /** σ̂² = ρ / (n − d), or what the energy says if n ≤ d: see `estimated_variance` in Python. */
    function estimate() {
      if (examples > dim) return residual / (examples - dim);
      let trace = 0;
      for (let i = 0; i < dim; i++) trace += scatter[i * size]; // scatter is d × d: its diagonal is d + 1 apart
      const z = (energy - trace) / examples;
      return 0.5 * (z + Math.hypot(z, (Math.SQRT2 / examples) * Math.sqrt(dot(scatter, scatter))));
    }
  }

  /** s, with 1 in place of 0: what may be divided by, since the fit is zero there anyway. */
  const divisor = (value) => (value > 0 ? value : 1);

  /** Weights from the fit with each coordinate multiplied by its factor. */
  function shrunk(fit, factor) {
    const weights = new Array(fit.vectors[0].length).fill(0);
    fit.vectors.forEach((vector, j) => {
      const coordinate = fit.coordinates[j] * factor(divisor(fit.values[j]));
      vector.forEach((component, i) => (weights[i] += coordinate * component));
    });
    return weights;
  }

  /**
   * w*_v.
   * @param {Fit} fit
   * @param {number} penalty v ≥ 0
   * @returns {number[]}
   */
  function ridge(fit, penalty) {
    return shrunk(fit, (s) => s / (s + penalty));
  }

  /**
   * A noise prior from its spec.
   * @param {string | null} spec "uniform:5", "uniform:1-3", "categorical:1+3" or "fixed:1"
   * @returns {{levels: number[] | null, low: number, high: number} | null} levels: all that σ can be, each as likely;
   *     null for a uniform prior. Null if the spec is none of these.
   */
  function parsePrior(spec) {
    const [kind, text = ""] = String(spec).split(":");
    const number = "(\\d+\\.?\\d*(?:e-?\\d+)?)";
    const among = (levels) =>
      levels.every((level) => level >= 0 && level < Infinity)
        ? { levels, low: Math.min(...levels), high: Math.max(...levels) }
        : null;
    if (kind === "fixed" && text) return among([Number(text)]);
    if (kind === "categorical" && text) return among(text.split("+").map(Number));
    const bounds = kind === "uniform" ? text.match(new RegExp(`^(?:${number}-)?${number}$`)) : null;
    if (!bounds) return null;
    const [low, high] = [Number(bounds[1] ?? 0), Number(bounds[2])];
    if (low < high) return { levels: null, low, high };
    return low === high ? among([high]) : null;
  }

  /** The order of priors in lists: uniform ones first, then by the largest σ. */
  function comparePriors(a, b) {
    const rank = (spec) => [String(spec).startsWith("uniform") ? 0 : 1, parsePrior(spec)?.high ?? Infinity];
    const [left, right] = [rank(a), rank(b)];
    return left[0] - right[0] || left[1] - right[1] || String(a).localeCompare(String(b));
  }

  /** log p(y | X, σ) + const, w ~ N(0, I) integrated out; may be infinite at σ = 0. */
  function logLikelihood(fit, sigma) {
    const v = sigma ** 2;
    if (v === 0) return logLikelihoodWithoutNoise(fit);
    let total = (fit.examples - fit.values.length) * Math.log(v) + fit.residual / v;
    fit.values.forEach((s, j) => (total += Math.log(s + v) + (fit.coordinates[j] ** 2 * s) / (s + v)));
    return -0.5 * total;
  }

  /** The limit σ → 0: a residual rules it out, and more points on a plane than it needs prove it. */
  function logLikelihoodWithoutNoise(fit) {
    if (fit.residual > 0) return -Infinity;
    if (fit.values.filter((s) => s > 0).length < fit.examples) return Infinity;
    return -0.5 * fit.values.reduce((sum, s, j) => sum + Math.log(divisor(s)) + fit.coordinates[j] ** 2, 0);
  }

  /**
   * p(σ | context) as nodes and probabilities.
   * @param {Fit} fit
   * @param {object} prior from parsePrior
   * @returns {{sigma: number[], probability: number[]}}
   */
  function posterior(fit, prior) {
    const { sigma, logWeight } = prior.levels
      ? { sigma: prior.levels, logWeight: prior.levels.map(() => 0) }
      : focusedNodes(fit, prior);
    const density = sigma.map((level) => logLikelihood(fit, level));
    const top = Math.max(...density);
    // Nodes of infinite density share everything; if no node is possible, all do.
    const logarithm = density.map((value, i) => {
      if (Number.isFinite(top)) return value - top + logWeight[i];
      return top === Infinity && value !== Infinity ? -Infinity : logWeight[i];
    });
    const highest = Math.max(...logarithm);
    const mass = logarithm.map((value) => Math.exp(value - highest));
    const total = mass.reduce((sum, value) => sum + value, 0);
    return { sigma, probability: mass.map((value) => value / total) };
  }

  /** Nodes of a uniform prior placed where the posterior is, in u of σ = c sinh u; `_focused` in Python. */
  function focusedNodes(fit, { low, high }) {
    const { start, scale } = lowerEnd(fit, high);
    let left = Math.asinh(Math.max(start, low) / scale);
    let right = Math.asinh(high / scale);
    const rank = fit.values.filter((s) => s > 0).length;
    if (low === 0 && fit.residual === 0 && rank < fit.examples) right = left; // σ = 0 beyond doubt
    const logJacobian = (sigma) => Math.log(Math.hypot(scale, sigma));
    for (let zoom = 0; zoom < ZOOMS; zoom++) {
      const u = Array.from({ length: COARSE }, (_, i) => left + ((right - left) * i) / (COARSE - 1));
      const density = u.map((value) => {
        const sigma = scale * Math.sinh(value);
        return logLikelihood(fit, sigma) + logJacobian(sigma);
      });
      const floor = Math.max(...density) - NEGLIGIBLE;
      const near = density.map((value) => value >= floor);
      left = u[Math.max(near.indexOf(true) - 1, 0)];
      right = u[Math.min(near.lastIndexOf(true) + 1, COARSE - 1)];
    }
    const { points, weights } = legendre;
    const sigma = points.map((point) => scale * Math.sinh(left + (right - left) * point));
    return {
      sigma: sigma.map((level) => Math.min(Math.max(level, low), high)),
      logWeight: sigma.map((level, i) => Math.log(weights[i]) + logJacobian(level)),
    };
  }

  /** Where the posterior starts, and a scale for σ at that end; the bound is derived in `_lower_end` in Python. */
  function lowerEnd(fit, high) {
    if (fit.residual > 0) {
      const v = Math.min(fit.residual / fit.examples, high ** 2);
      const a = Math.sqrt((4 * NEGLIGIBLE * v) / fit.residual);
      const start = Math.sqrt(v / (1 + a + a ** 2));
      return { start, scale: start };
    }
    const smallest = Math.min(...fit.values.filter((s) => s > 0));
    return { start: 0, scale: Number.isFinite(smallest) ? Math.sqrt(smallest) : 1 };
  }

  /** Gauss-Legendre points and weights on [0, 1], by Newton's method on the polynomial. */
  const legendre = (() => {
    const points = [];
    const weights = [];
    for (let i = 0; i < NODES; i++) {
      let x = -Math.cos((Math.PI * (i + 0.75)) / (NODES + 0.5));
      let slope = 1;
      for (let round = 0; round < 8; round++) { // quadratic from a guess that is good to three digits
        let [previous, value] = [1, x];
        for (let k = 2; k <= NODES; k++) {
          [previous, value] = [value, ((2 * k - 1) * x * value - (k - 1) * previous) / k];
        }
        slope = (NODES * (x * value - previous)) / (x * x - 1);
        x -= value / slope;
      }
      points.push((x + 1) / 2);
      weights.push(1 / ((1 - x * x) * slope ** 2));
    }
    return { points, weights };
  })();

  /**
   * The posterior mean of w, E[w | D] = ∫ p(σ | D) w*_{σ²} dσ: no predictor that is not told σ does better on average.
   * @param {Fit} fit
   * @param {object} prior from parsePrior
   * @returns {number[]}
   */
  function bayes(fit, prior) {
    const { sigma, probability } = posterior(fit, prior);
    return shrunk(fit, (s) => sigma.reduce((sum, level, i) => sum + (probability[i] * s) / (s + level ** 2), 0));
  }

  /**
   * All baselines of a context.
   * @param {Float64Array} gram
   * @param {{dim: number, examples: number, sigma: number, noise: string | null}} known noise: the prior's spec
   * @returns {{ols: number[], adarr: number[], oracle: number[], bayes: number[] | null}} weights; no Bayes answer
   *     without a prior
   */
  function allBaselines(gram, { dim, examples, sigma, noise }) {
    const fit = leastSquares(gram, dim, examples);
    const prior = parsePrior(noise);
    return {
      ols: ridge(fit, 0),
      adarr: ridge(fit, fit.noiseVariance),
      oracle: ridge(fit, sigma ** 2),
      bayes: prior && bayes(fit, prior),
    };
  }

  return { leastSquares, ridge, posterior, bayes, parsePrior, comparePriors, allBaselines };
})();

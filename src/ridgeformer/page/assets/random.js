"use strict";
// Sequences from a seed, the same for everybody, so that a link shares the very numbers. Each quantity has a stream of
// its own: dragging σ keeps w, x and ξ/σ, and more examples come after those that were there.
globalThis.ridgeformer ??= {};

ridgeformer.random = (() => {
  /** What a stream is for. The numbers are part of every link: never change or reuse one. */
  const STREAM = { weights: 1, features: 2, noise: 3, queries: 4 };

  /**
   * Uniform 32-bit integers: xoshiro128** of Blackman and Vigna (2021), its state filled by SplitMix32 as they advise.
   * @param {number} seed whole, 0 … 2³² − 1
   * @param {number} stream whole; another stream is as unrelated as another seed
   * @returns {() => number} 0 … 2³² − 1
   */
  function generator(seed, stream) {
    let key = (Math.imul(seed | 0, 0x9e3779b9) ^ Math.imul(stream, 0x85ebca6b)) | 0;
    const splitMix = () => {
      key = (key + 0x9e3779b9) | 0;
      let z = key;
      z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
      z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
      return (z ^ (z >>> 16)) | 0;
    };
    let [a, b, c, d] = [splitMix(), splitMix(), splitMix(), splitMix()];
    return () => {
      const fives = Math.imul(b, 5);
      const result = Math.imul((fives << 7) | (fives >>> 25), 9) >>> 0;
      const shifted = b << 9;
      c ^= a;
      d ^= b;
      b ^= c;
      a ^= d;
      c ^= shifted;
      d = (d << 11) | (d >>> 21);
      return result;
    };
  }

  /**
   * Standard normal numbers by Box and Muller's method.
   * @param {number} seed
   * @param {number} stream
   * @returns {() => number}
   */
  function normals(seed, stream) {
    const next = generator(seed, stream);
    let kept = null;
    return () => {
      if (kept !== null) {
        const second = kept;
        kept = null;
        return second;
      }
      const radius = Math.sqrt(-2 * Math.log((next() + 0.5) / 2 ** 32)); // + ½: the logarithm of 0 is never asked for
      const angle = (2 * Math.PI * next()) / 2 ** 32;
      kept = radius * Math.sin(angle);
      return radius * Math.cos(angle);
    };
  }

  /**
   * All that a seed decides: w, x_i, ξ_i / σ, and queries without noise.
   * @param {number} seed
   * @param {{dim: number, examples: number, queries: number}} sizes
   * @returns {{weights: number[], X: number[][], noise: number[], queries: number[][]}}
   */
  function drawSequence(seed, { dim, examples, queries }) {
    const vector = (normal) => Array.from({ length: dim }, normal);
    const rows = (count, normal) => Array.from({ length: count }, () => vector(normal));
    const noise = normals(seed, STREAM.noise);
    return {
      weights: vector(normals(seed, STREAM.weights)),
      X: rows(examples, normals(seed, STREAM.features)),
      noise: Array.from({ length: examples }, () => noise()),
      queries: rows(queries, normals(seed, STREAM.queries)),
    };
  }

  /**
   * A context: y_i = <w, x_i> + σ ξ_i, and `outlier` added to the first target only.
   * @param {{weights: number[], X: number[][], noise: number[]}} sequence from drawSequence
   * @param {{sigma: number, examples: number, outlier: number}} settings
   * @returns {{X: number[][], y: number[]}}
   */
  function makeContext(sequence, { sigma, examples, outlier }) {
    const X = sequence.X.slice(0, examples);
    const y = X.map((x, i) => ridgeformer.linearAlgebra.dot(sequence.weights, x) + sigma * sequence.noise[i]);
    y[0] += outlier;
    return { X, y };
  }

  return { generator, normals, drawSequence, makeContext };
})();

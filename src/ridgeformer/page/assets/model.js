"use strict";
// The forward pass of a linear transformer, in Gram space. A layer sees the examples only through G = Σ_i e_i e_iᵀ of
// the tokens e_i = (x_i, y_i), or (x_i, 0, y_i) with registers that start at zero, and moves every token as e ↦ T e:
//
//     T = I + Σ_k P_k G Q_k ,   G ← T G Tᵀ ,   C ← T C ,   C = [[M, u], [−ŵᵀ, a]] ,   prediction <ŵ, x_t> .
//
// C is the product of all T so far; its blocks are the implicit linear model of Theorem 4.1 of the paper. Registers have
// rows and columns of their own between those of x and y, each a linear model too; ŵ is read from the last row.
globalThis.ridgeformer ??= {};

ridgeformer.model = (() => {
  const { identity, multiply, transpose, dot } = ridgeformer.linearAlgebra;
  /** The four blocks of a layer's update, target first: ω_xy moves x by multiples of y. */
  const BLOCKS = ["xx", "xy", "yx", "yy"];

  /**
   * @typedef {object} Model
   * @property {string} name
   * @property {string} kind "gdpp", "diag" or "full"
   * @property {number} layers
   * @property {number} heads
   * @property {number} registers r, further coordinates of a token
   * @property {number} dim d
   * @property {number[][] | null} omega of each layer, in the order of BLOCKS; null for full models and with registers
   * @property {Float64Array[][]} P [layer][head], p × p with p = d + r + 1
   * @property {Float64Array[][]} Q likewise
   */

  /**
   * A model of the page's data, ready to run.
   * @param {object} encoded see page/models.py
   * @returns {Model}
   */
  function decodeModel(encoded) {
    const { kind, layers, heads, dim, dtype, weights, registers = 0 } = encoded;
    const tensor = (key) => decodeNumbers(weights[key], dtype);
    if (kind === "full") {
      const [P, Q] = ["P", "Q"].map((key) => splitMatrices(tensor(key), layers, heads, dim + registers + 1));
      return { ...encoded, registers, P, Q, omega: null };
    }
    const [p, q] = [tensor("p"), tensor("q")];
    if (registers > 0) {
      const [P, Q] = [p, q].map((numbers) => spreadMatrices(numbers, layers, heads, dim, registers));
      return { ...encoded, registers, P, Q, omega: null };
    }
    const width = kind === "gdpp" ? 1 : 2; // GD++ has no q_y
    const P = [];
    const Q = [];
    const omega = [];
    for (let layer = 0; layer < layers; layer++) {
      const sums = [0, 0, 0, 0];
      P.push([]);
      Q.push([]);
      for (let head = 0; head < heads; head++) {
        const place = layer * heads + head;
        const [px, py] = [p[2 * place], p[2 * place + 1]];
        const [qx, qy] = [q[width * place], width === 2 ? q[2 * place + 1] : 0];
        [px * qx, px * qy, py * qx, py * qy].forEach((product, block) => (sums[block] += product));
        P[layer].push(blockDiagonal(px, py, dim));
        Q[layer].push(blockDiagonal(qx, qy, dim));
      }
      omega.push(sums);
    }
    return { ...encoded, registers, P, Q, omega };
  }

  /** Base64 of little-endian float32 or float64 numbers, as float64. */
  function decodeNumbers(text, dtype) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const width = dtype === "float32" ? 4 : 8;
    const read = width === 4 ? view.getFloat32 : view.getFloat64;
    return Float64Array.from({ length: bytes.length / width }, (_, i) => read.call(view, i * width, true));
  }

  /** A tensor (layers, heads, size, size) as matrices [layer][head]. */
  function splitMatrices(numbers, layers, heads, size) {
    const matrix = (place) => numbers.slice(place * size * size, (place + 1) * size * size);
    return Array.from({ length: layers }, (_, layer) =>
      Array.from({ length: heads }, (_, head) => matrix(layer * heads + head)),
    );
  }

  /** blockdiag(x I_d, S) of every layer and head, from 1 + (1 + r)² numbers each: x, then S row by row. */
  function spreadMatrices(numbers, layers, heads, dim, registers) {
    const rest = 1 + registers;
    const size = dim + rest;
    const one = (place) => {
      const own = numbers.subarray(place * (1 + rest * rest), (place + 1) * (1 + rest * rest));
      const matrix = new Float64Array(size * size);
      for (let i = 0; i < dim; i++) matrix[i * (size + 1)] = own[0];
      for (let a = 0; a < rest; a++) {
        for (let b = 0; b < rest; b++) matrix[(dim + a) * size + dim + b] = own[1 + a * rest + b];
      }
      return matrix;
    };
    return Array.from({ length: layers }, (_, layer) =>
      Array.from({ length: heads }, (_, head) => one(layer * heads + head)),
    );
  }

  /** A matrix of x and y with rows and columns of zeros for the registers between them. */
  function insertRegisters(matrix, dim, registers) {
    if (registers === 0) return matrix;
    const size = dim + registers + 1;
    const place = (i) => (i < dim ? i : size - 1);
    const wide = new Float64Array(size * size);
    for (let i = 0; i <= dim; i++) {
      for (let j = 0; j <= dim; j++) wide[place(i) * size + place(j)] = matrix[i * (dim + 1) + j];
    }
    return wide;
  }

  /** diag(x I_d, y). */
  function blockDiagonal(x, y, dim) {
    const matrix = new Float64Array((dim + 1) ** 2);
    for (let i = 0; i < dim; i++) matrix[i * (dim + 2)] = x;
    matrix[dim * (dim + 2)] = y;
    return matrix;
  }

  /**
   * G = Σ_i e_i e_iᵀ.
   * @param {number[][]} X n × d
   * @param {number[]} y
   * @returns {Float64Array} (d + 1) × (d + 1)
   */
  function gramMatrix(X, y) {
    const size = X[0].length + 1;
    const gram = new Float64Array(size * size);
    X.forEach((x, example) => {
      const token = [...x, y[example]];
      for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) gram[i * size + j] += token[i] * token[j];
    });
    return gram;
  }

  /**
   * Σ_k P_k G Q_k of one layer, without the blocks that are switched off. In diag and gdpp models an empty block is
   * an ω set to zero; full models lose the same block of the update (as `switched_off` in Python does). With registers,
   * y stands for them too: what a token has besides x.
   * @param {Model} model
   * @param {number} layer counted from 0
   * @param {Float64Array} gram
   * @param {Set<string>} off such as "2xy": block xy of the second layer
   * @returns {Float64Array}
   */
  function layerUpdate(model, layer, gram, off) {
    const size = model.dim + model.registers + 1;
    const update = new Float64Array(size * size);
    for (let head = 0; head < model.heads; head++) {
      const term = multiply(multiply(model.P[layer][head], gram, size), model.Q[layer][head], size);
      for (let i = 0; i < update.length; i++) update[i] += term[i];
    }
    BLOCKS.forEach((block) => {
      if (off.has(`${layer + 1}${block}`)) forBlock(block, model.dim, size, (place) => (update[place] = 0));
    });
    return update;
  }

  /** Call `visit` with every place of one of the four blocks of a matrix, cut behind x. */
  function forBlock(block, dim, size, visit) {
    const range = (axis) => (axis === "x" ? [0, dim] : [dim, size]);
    const [[top, bottom], [left, right]] = [range(block[0]), range(block[1])];
    for (let i = top; i < bottom; i++) for (let j = left; j < right; j++) visit(i * size + j);
  }

  /**
   * @typedef {object} LayerResult what is read after a layer
   * @property {number[]} weights ŵ
   * @property {number} step η: the multiple of steepest descent that is nearest to what the layer adds to ŵ
   * @property {number} alignment cosine between the two: 1 where the layer is a plain gradient step
   * @property {number} rescaling 1 + δ: what the layer multiplies ŵ by
   * @property {number} energy λ^l = Σ_i (y_i^l)² in front of the layer
   * @property {number[]} blockSizes Frobenius norms of the four blocks of the update, in the order of BLOCKS
   */

  /**
   * Run a model on a context and read out after every layer. By Lemma 4.3 a layer with update [[A, b], [cᵀ, δ]] makes
   * ŵ' = (1 + δ) ŵ − Mᵀ c; with registers, −Mᵀ c also holds what comes from their weights. The step η is that of `ridgeformer.theory.effective_step_size`: −Mᵀ c is measured against
   * g = a α − Σ ŵ, minus the gradient of ½ Σ_i (a y_i − <ŵ, x_i>)².
   * @param {Model} model
   * @param {Float64Array} firstGram G of the context
   * @param {Set<string>} [off]
   * @returns {LayerResult[]}
   */
  function runModel(model, firstGram, off = new Set()) {
    const d = model.dim;
    const last = d + model.registers; // the place of y
    const size = last + 1;
    const entry = (matrix, i, j) => matrix[i * size + j];
    const start = insertRegisters(firstGram, d, model.registers);
    let gram = start;
    let product = identity(size);
    const results = [];
    for (let layer = 0; layer < model.layers; layer++) {
      const update = layerUpdate(model, layer, gram, off);
      const change = new Array(d).fill(0); // −Mᵀ c
      const descent = new Array(d).fill(0); // g; the last row of C is (−ŵᵀ, a)
      for (let i = 0; i < d; i++) {
        for (let j = 0; j < last; j++) change[i] -= entry(product, j, i) * entry(update, last, j);
        for (let j = 0; j < size; j++) descent[i] += entry(start, i, j) * entry(product, last, j);
      }
      const along = dot(change, descent);
      const square = dot(descent, descent);
      const norms = Math.sqrt(square) * Math.sqrt(dot(change, change));
      const energy = entry(gram, last, last);
      const map = identity(size);
      for (let i = 0; i < map.length; i++) map[i] += update[i];
      product = multiply(map, product, size);
      gram = multiply(multiply(map, gram, size), transpose(map, size), size);
      results.push({
        weights: Array.from(product.subarray(last * size, last * size + d), (value) => -value),
        step: along / (square === 0 ? 1 : square),
        alignment: along / (norms === 0 ? 1 : norms),
        rescaling: 1 + entry(update, last, last),
        energy,
        blockSizes: BLOCKS.map((block) => blockSize(update, block, d, size)),
      });
    }
    return results;
  }

  /** Frobenius norm of a block. */
  function blockSize(matrix, block, dim, size) {
    let sum = 0;
    forBlock(block, dim, size, (place) => (sum += matrix[place] ** 2));
    return Math.sqrt(sum);
  }

  /**
   * Blocks that cannot change a prediction: nothing reads the x that the last layer writes, and in a model of one
   * layer the query's y is still zero.
   * @param {number} layers
   * @returns {Set<string>} such as "7xx"
   */
  function inertBlocks(layers) {
    return new Set([`${layers}xx`, `${layers}xy`, ...(layers === 1 ? ["1yy"] : [])]);
  }

  return { BLOCKS, decodeModel, gramMatrix, runModel, inertBlocks };
})();

"use strict";
// Small dense matrices as Float64Array, row after row. Sizes are about 11 × 11, so plain loops are fast enough.
globalThis.ridgeformer ??= {};

ridgeformer.linearAlgebra = (() => {
  /** A sweep halves the digits still missing once it converges; 10 × 10 matrices need about 7 sweeps. */
  const MAX_SWEEPS = 50;

  /**
   * The identity matrix.
   * @param {number} size
   * @returns {Float64Array} size × size
   */
  function identity(size) {
    const matrix = new Float64Array(size * size);
    for (let i = 0; i < size; i++) matrix[i * size + i] = 1;
    return matrix;
  }

  /**
   * A B, of square matrices.
   * @param {Float64Array} A
   * @param {Float64Array} B
   * @param {number} size
   * @returns {Float64Array}
   */
  function multiply(A, B, size) {
    const product = new Float64Array(size * size);
    for (let i = 0; i < size; i++) {
      for (let k = 0; k < size; k++) {
        const factor = A[i * size + k];
        if (factor === 0) continue; // matrices of diag models are mostly zero
        for (let j = 0; j < size; j++) product[i * size + j] += factor * B[k * size + j];
      }
    }
    return product;
  }

  /**
   * Aᵀ of a square matrix.
   * @param {Float64Array} A
   * @param {number} size
   * @returns {Float64Array}
   */
  function transpose(A, size) {
    const turned = new Float64Array(size * size);
    for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) turned[j * size + i] = A[i * size + j];
    return turned;
  }

  /**
   * <a, b>.
   * @param {ArrayLike<number>} a
   * @param {ArrayLike<number>} b
   * @returns {number}
   */
  function dot(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
    return sum;
  }

  /**
   * ‖a − b‖².
   * @param {ArrayLike<number>} a
   * @param {ArrayLike<number>} b
   * @returns {number}
   */
  function squaredDistance(a, b) {
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += (a[i] - b[i]) ** 2;
    return sum;
  }

  /**
   * Eigenvalues and -vectors of a symmetric matrix by Jacobi's rotations (cyclic, Golub and Van Loan, section 8.5).
   * @param {Float64Array} symmetric size × size
   * @param {number} size
   * @returns {{values: number[], vectors: number[][]}} values ascending; vectors[j] belongs to values[j]
   */
  function symmetricEigen(symmetric, size) {
    const A = Float64Array.from(symmetric);
    const V = identity(size);
    const total = dot(A, A);
    for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
      let outside = 0;
      for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) outside += A[i * size + j] ** 2;
      if (!(outside > total * Number.EPSILON ** 2)) break; // what is left is below the rounding of the norm
      for (let i = 0; i < size - 1; i++) for (let j = i + 1; j < size; j++) rotate(A, V, i, j, size);
    }
    const order = Array.from({ length: size }, (_, j) => j).sort((a, b) => A[a * size + a] - A[b * size + b]);
    return {
      values: order.map((j) => A[j * size + j]),
      vectors: order.map((j) => Array.from({ length: size }, (_, i) => V[i * size + j])),
    };
  }

  /** Rotate the plane (i, j) so that A_ij becomes zero; the columns of V turn with it. Changes A and V. */
  function rotate(A, V, i, j, size) {
    const off = A[i * size + j];
    if (off === 0) return;
    const theta = (A[j * size + j] - A[i * size + i]) / (2 * off);
    const tangent = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta ** 2 + 1)); // the smaller angle
    const cosine = 1 / Math.sqrt(tangent ** 2 + 1);
    const sine = tangent * cosine;
    for (let k = 0; k < size; k++) turn(A, k * size + i, k * size + j, cosine, sine);
    for (let k = 0; k < size; k++) turn(A, i * size + k, j * size + k, cosine, sine);
    for (let k = 0; k < size; k++) turn(V, k * size + i, k * size + j, cosine, sine);
    A[i * size + j] = A[j * size + i] = 0; // up to rounding it is
  }

  /** (a, b) → (c a − s b, s a + c b), in place. */
  function turn(array, a, b, cosine, sine) {
    const first = array[a];
    const second = array[b];
    array[a] = cosine * first - sine * second;
    array[b] = sine * first + cosine * second;
  }

  return { identity, multiply, transpose, dot, squaredDistance, symmetricEigen };
})();

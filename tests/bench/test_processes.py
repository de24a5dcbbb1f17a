"""The count of multiply-adds, against a gradient computed entry by entry, in which every one of them is counted."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.bench.processes import multiply_adds
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw


class Counter:
    """Small linear algebra on float64 arrays by loops; a multiplication is counted whether or not a sum follows."""

    def __init__(self) -> None:
        self.count = 0

    def product(self, left: Array, right: Array, lower_only: bool = False) -> Array:
        size, out = len(left), np.zeros_like(left)
        for i in range(size):
            for j in range(i + 1 if lower_only else size):
                out[i, j] = self.inner(left[i], right[:, j])
        return np.tril(out) + np.tril(out, -1).T if lower_only else out

    def apply(self, matrix: Array, vector: Array) -> Array:
        return np.array([self.inner(row, vector) for row in matrix])

    def inner(self, left: Array, right: Array) -> float:
        self.count += len(left)
        return float(sum(left * right))

    def outer(self, column: Array, row: Array) -> Array:
        self.count += len(column) * len(row)
        return np.outer(column, row)


class CountedGradient:
    """∂P and ∂Q of one context's exact loss, in the steps of `ridgeformer.kernels.full`, with all that they need."""

    def __init__(self, P: Array, Q: Array, gram: Array, oracle: Array) -> None:
        self.P, self.Q = P, Q
        self.layers, self.heads, self.size, _ = P.shape
        self.last = self.layers - 1
        self.counter = Counter()
        self.P_gradient, self.Q_gradient = np.zeros_like(P), np.zeros_like(Q)
        self.grams, self.maps, self.lefts = [gram], list[Array](), list[list[Array]]()
        self.forward()
        self.read_out(oracle)
        self.backward_last()
        adjoint = np.zeros_like(gram)
        for layer in reversed(range(self.last)):
            adjoint = self.backward(layer, adjoint)

    def forward(self) -> None:
        product = self.counter.product
        for layer in range(self.last):
            gram = self.grams[layer]
            self.lefts.append([product(P, gram) for P in self.P[layer]])
            steps = [product(left, Q) for left, Q in zip(self.lefts[layer], self.Q[layer], strict=True)]
            self.maps.append(np.eye(self.size) + sum(steps))
            if layer < self.last - 1:
                moved = product(self.maps[layer], gram)
                self.grams.append(product(moved, self.maps[layer].T, lower_only=True))

    def seen_by_last(self, vector: Array) -> tuple[Array, Array, Array]:
        """Tᵀ·vector, G Tᵀ·vector and T G Tᵀ·vector for the layer below the last."""
        apply = self.counter.apply
        if self.last == 0:
            return vector, vector, apply(self.grams[0], vector)
        pulled = apply(self.maps[-1].T, vector)
        mixed = apply(self.grams[self.last - 1], pulled)
        return pulled, mixed, apply(self.maps[-1], mixed)

    def read_out(self, oracle: Array) -> None:
        apply, last = self.counter.apply, self.last
        self.p_rows = list(self.P[last, :, -1])
        self.p_seen = [self.seen_by_last(row) for row in self.p_rows]
        read = [apply(Q.T, seen[2]) for Q, seen in zip(self.Q[last], self.p_seen, strict=True)]
        self.rows = [np.eye(self.size)[-1] + sum(read)]
        for layer_map in reversed(self.maps):
            self.rows.insert(0, apply(layer_map.T, self.rows[0]))
        self.columns = [np.append(self.rows[0][:-1] + oracle, 0.0)]
        for layer_map in self.maps:
            self.columns.append(apply(layer_map, self.columns[-1]))

    def backward_last(self) -> None:
        column = self.columns[self.last]
        self.q_rows = [self.counter.apply(Q, column) for Q in self.Q[self.last]]
        self.q_seen = [self.seen_by_last(row) for row in self.q_rows]
        for k in range(self.heads):
            self.P_gradient[self.last, k, -1] = self.q_seen[k][2]
            self.Q_gradient[self.last, k] = self.counter.outer(self.p_seen[k][2], column)

    def backward(self, layer: int, adjoint: Array) -> Array:
        product, outer = self.counter.product, self.counter.outer
        gram, layer_map, below_last = self.grams[layer], self.maps[layer], layer == self.last - 1
        map_adjoint = outer(self.rows[layer + 1], self.columns[layer])
        pushed = spread = np.zeros_like(gram)
        if below_last:
            for k in range(self.heads):
                map_adjoint = map_adjoint + outer(self.p_rows[k], self.q_seen[k][1])
                map_adjoint = map_adjoint + outer(self.q_rows[k], self.p_seen[k][1])
        else:
            pushed = product(adjoint, layer_map)
            map_adjoint = map_adjoint + product(pushed, gram)
        for k in range(self.heads):
            half_way = product(map_adjoint, self.Q[layer, k].T)
            self.P_gradient[layer, k] = product(half_way, gram)
            self.Q_gradient[layer, k] = product(self.lefts[layer][k].T, map_adjoint)
            if layer > 0:
                spread = spread + product(self.P[layer, k].T, half_way)
                if below_last:
                    spread = spread + outer(self.p_seen[k][0], self.q_seen[k][0])
        if layer == 0 or below_last:
            return spread + spread.T
        return product(layer_map.T, pushed, lower_only=True) + spread + spread.T


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("heads", [1, 2])
def test_multiply_adds_equals_the_count_of_a_gradient_by_loops(layers: int, heads: int) -> None:
    dim, rng = 2, np.random.default_rng(layers)
    model = LinearTransformer.init("full", layers=layers, heads=heads, dim=dim, scale=0.2, dtype=np.float64)
    tokens, oracle = rng.standard_normal((4, dim + 1)), rng.standard_normal(dim)
    gram = tokens.T @ tokens
    counted = CountedGradient(*model.attention_matrices(), gram, oracle)
    # The loops count only if they compute the right thing.
    contexts = GramDraw(gram[None], oracle[None], oracle[None], oracle[None])
    expected = losses_and_gradient_on(model, contexts, backend="reference")[1]
    np.testing.assert_allclose(counted.P_gradient, expected.parameters["P"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(counted.Q_gradient, expected.parameters["Q"], rtol=1e-9, atol=1e-12)
    assert multiply_adds(layers, heads, dim + 1) == counted.counter.count


def test_multiply_adds_of_the_usual_step_is_50_products_and_9_halves_and_vectors() -> None:
    # By hand for L = 7, H = 1, p = 11: 12 forward, 5 T G, 3 + 1 at l = 5, 5·5 below, 4 with l > 0; halves 5 and 4.
    # Vectors: 4 and 5 at the last layer, 12 rows and columns, 3 + 1 at l = 5, 5 below.
    assert multiply_adds(layers=7, heads=1, size=11) == 50 * 11**3 + 9 * 11 * 66 + 30 * 11**2

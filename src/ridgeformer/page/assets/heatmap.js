"use strict";
/* Matrices as heat maps: orange below zero, purple above, one scale for all; hover or arrow keys read an entry. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format } = ridgeformer;
  const { tooltip } = ridgeformer.chartParts;
  const { el, svg } = dom;
  const CELL = 10;

  /** How strong the colour of an entry is, in per cent: square roots, so that small entries still show. */
  const strength = (value, largest) => (100 * Math.sqrt(Math.abs(value) / (largest || 1))).toFixed(1);

  function entry(value, row, column, largest) {
    const colour = value < 0 ? "var(--negative)" : "var(--positive)";
    return svg("rect", {
      x: column * CELL,
      y: row * CELL,
      width: CELL,
      height: CELL,
      style: { fill: `color-mix(in oklab, ${colour} ${strength(value, largest)}%, var(--zero))` },
    });
  }

  /**
   * One matrix, the last row and column of which belong to y.
   * @param {{title: string, matrix: number[][], largest: number}} spec
   * @returns {HTMLElement}
   */
  function heatmap({ title, matrix, largest }) {
    const size = matrix.length;
    const side = size * CELL;
    let at = [0, 0];
    const name = (k) => (k === size - 1 ? "y" : `x${k + 1}`);
    const ring = svg("rect", { class: "cell-ring", width: CELL, height: CELL, visibility: "hidden" });
    const block = (size - 1) * CELL;
    const canvas = svg(
      "svg",
      {
        class: "heatmap",
        viewBox: `-1 -1 ${side + 2} ${side + 2}`,
        tabindex: "0",
        role: "application",
        "aria-roledescription": "heat map",
        "aria-label": `${title}, ${size} by ${size}. Arrow keys read the entries.`,
      },
      matrix.map((row, i) => row.map((value, j) => entry(value, i, j, largest))),
      svg("path", { class: "block-line", d: `M${block},0V${side}M0,${block}H${side}` }),
      svg("rect", { class: "frame", width: side, height: side }),
      ring,
    );

    function mark([row, column], speak) {
      at = [row, column];
      ring.setAttribute("x", column * CELL);
      ring.setAttribute("y", row * CELL);
      ring.setAttribute("visibility", "visible");
      const lines = [`${title} [${name(row)}, ${name(column)}]`, format.signed(matrix[row][column])];
      tooltip.show(lines, () => {
        const box = canvas.getBoundingClientRect();
        return [box.left + ((column + 0.5) / size) * box.width, box.top + (row / size) * box.height];
      });
      if (speak) dom.announce(lines.join(": "));
    }

    function leave() {
      ring.setAttribute("visibility", "hidden");
      tooltip.hide();
    }

    const inside = (k) => Math.max(0, Math.min(size - 1, k));
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const place = (offset, length) => inside(Math.floor((offset / length) * size));
      mark([place(event.clientY - box.top, box.height), place(event.clientX - box.left, box.width)], false);
    });
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      mark([inside(at[0] + step[0]), inside(at[1] + step[1])], true);
    });
    return el("figure", { class: "panel" }, el("figcaption", {}, title), canvas);
  }

  /** The scale of heat maps. */
  function scaleBar(largest) {
    return el(
      "div",
      { class: "scale-bar" },
      el("span", {}, format.signed(-largest)),
      el("span", { class: "scale-colours", "aria-hidden": "true" }),
      el("span", {}, format.signed(largest)),
      el("span", { class: "quiet" }, "colour grows with the square root"),
    );
  }

  ridgeformer.heatmap = heatmap;
  ridgeformer.scaleBar = scaleBar;
}

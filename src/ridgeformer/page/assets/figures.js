"use strict";
/* The figures as plots/specification.py computes them: heat maps, tables and charts, in tabs, drawn when first opened. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format, state } = ridgeformer;
  const { tooltip, legend, keysOf, allSeries, numbers } = ridgeformer.chartParts;
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

  /** One matrix, the last row and column of which belong to y; hover or arrow keys read an entry. */
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
    return canvas;
  }

  /** The scale of heat maps. */
  function scaleBar(largest) {
    return el(
      "div",
      { class: "scale-bar" },
      el("span", {}, format.signed(-largest)),
      el("span", { class: "scale-colours", "aria-hidden": "true" }),
      el("span", {}, format.signed(largest)),
      el("span", { class: "quiet" }, "the colour grows with the square root of the entry"),
    );
  }

  /** Predictors by condition as a table; where one does not survive, its cell is marked. */
  function comparison({ title, rows, columns, failed }) {
    const cell = (ratio, bad) =>
      el(
        "td",
        { class: bad ? "worse" : null },
        ratio < 1e4 ? format.ratio(ratio) : ratio < 1e300 ? `${format.loss(ratio)}×` : "∞",
        el("span", { class: "mark", "aria-hidden": "true" }, bad ? "▴" : ""),
        el("span", { class: "visually-hidden" }, bad ? ", does not survive" : ""),
      );
    const lines = rows.map((name, row) => [name, ...columns.map((one, k) => cell(one.x[row], failed[k][row]))]);
    return el(
      "div",
      { class: "scroll table-frame", tabindex: "0", role: "region", "aria-label": title },
      dom.table({ caption: title, head: ["Shift", ...columns.map(({ name }) => name)], rows: lines }),
    );
  }

  /** One view of a figure: its panels row by row under one legend, or one large chart. */
  function drawView(figure, view) {
    const panels = view.rows.flatMap((row) => row.panels);
    const charts = panels.filter(({ type }) => type === "Chart");
    const used = new Set(charts.flatMap(allSeries).flatMap(keysOf));
    const entries = (figure.legend ?? []).filter(({ name }) => used.has(name));
    const caption = figure.caption && el("p", { class: "axis-note" }, figure.caption);
    if (panels.length === 1 && charts.length) return [caption, ridgeformer.lineChart({ ...panels[0], legend: entries })];
    const hidden = new Set();
    const drawn = [];
    const draw = (panel) => {
      if (panel.type === "Comparison") return comparison(panel);
      const isMap = panel.type === "HeatMap";
      const picture = isMap ? heatmap(panel) : ridgeformer.lineChart({ ...panel, compact: true });
      if (!isMap) drawn.push(picture);
      return el("figure", { class: "panel" }, el("figcaption", {}, panel.title), picture);
    };
    const rows = view.rows.map(({ title, panels }) => {
      const kind = { HeatMap: "panels heat", Comparison: "" }[panels[0]?.type] ?? "panels";
      return [title && el("h4", {}, title), el("div", { class: kind }, panels.map(draw))];
    });
    return [
      entries.length > 0 && legend(entries, hidden, () => drawn.forEach((chart) => chart.hide(hidden))),
      caption,
      panels[0]?.type === "HeatMap" && scaleBar(panels[0].largest),
      rows,
      charts.length > 0 && numbers(() => charts),
    ];
  }

  /** A figure; with several views, a choice between them above the one that is chosen. */
  function drawFigure(name, figure) {
    const notes = figure.notes?.map((note) => el("p", { class: "chart-note" }, note));
    if (figure.views.length === 1) return [drawView(figure, figure.views[0]), notes];
    const place = el("div", {});
    const show = (chosen) => dom.fill(place, drawView(figure, figure.views[Number(chosen)]));
    const control = {
      label: figure.choice,
      options: figure.views.map((view, k) => ({ value: String(k), text: view.name })),
      value: String(figure.first ?? 0),
      onChange: show,
    };
    show(control.value);
    const id = `figure-${name}-view`;
    const few = figure.views.length <= 4;
    return [
      el("div", { class: "controls" }, few ? dom.choice({ ...control, name: id }) : dom.select({ ...control, id })),
      place,
      notes,
    ];
  }

  /** What is said where a record is missing. */
  function missing(record, commands) {
    const said = `This needs the file ${record}.json, which is missing. Make it with `;
    return el("p", { class: "missing" }, said, el("code", {}, commands[record]), ".");
  }

  const isNumber = (name) => /^\d+$/.test(name);
  const tabName = (name) => (isNumber(name) ? name : name[0].toUpperCase() + name.slice(1));

  function panelOf({ name, title, text, missing: absent, figure }, commands) {
    const nothing = el("p", { class: "quiet" }, "There is nothing to draw: the record has no numbers for this figure.");
    const shown = figure ? drawFigure(name, figure) : nothing;
    return [
      el("h3", {}, (isNumber(name) ? `Figure ${name}. ` : "") + title),
      el("p", { class: "figure-text" }, text),
      absent.length ? absent.map((record) => missing(record, commands)) : shown,
    ];
  }

  /**
   * All figures as tabs.
   * @param {object[]} entries see page/build.py
   * @param {Object<string, string>} commands what makes each record
   * @returns {HTMLElement}
   */
  function figures(entries, commands) {
    const drawn = new Set();
    const tabs = entries.map(({ name, title }) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `panel-${name}`,
          "aria-label": `${isNumber(name) ? "Figure " : ""}${tabName(name)}: ${title}`,
          on: { click: () => open(name) },
        },
        tabName(name),
      ),
    );
    const panels = entries.map(({ name }) =>
      el("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, hidden: true }),
    );

    function open(key, focus = false) {
      const found = entries.findIndex(({ name }) => name === key);
      const chosen = Math.max(0, found);
      entries.forEach((_, k) => {
        tabs[k].setAttribute("aria-selected", String(k === chosen));
        tabs[k].tabIndex = k === chosen ? 0 : -1;
        panels[k].hidden = k !== chosen;
      });
      if (!drawn.has(chosen)) dom.fill(panels[chosen], panelOf(entries[chosen], commands));
      drawn.add(chosen);
      if (focus) tabs[chosen].focus();
      state.write({ figure: chosen ? entries[chosen].name : null });
    }

    const list = el("div", { class: "tabs", role: "tablist", "aria-label": "Figures" }, tabs);
    list.addEventListener("keydown", (event) => {
      const at = tabs.indexOf(event.target);
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      open(entries[(next + tabs.length) % tabs.length].name, true);
    });
    open(state.read().figure);
    state.subscribe((now) => open(now.figure));
    return el("div", {}, list, panels);
  }

  ridgeformer.figures = figures;
  ridgeformer.missing = missing;
}

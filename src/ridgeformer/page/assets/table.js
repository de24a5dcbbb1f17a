"use strict";
/* Table 1: ours, the paper's, or ratios; sorted by any column; every model opens in the explorer. A grid for arrow keys. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format, state } = ridgeformer;
  const { el } = dom;
  const NO_PAPER = "–";

  /** What a cell can show: its number for sorting, and its text. */
  const VIEWS = {
    ours: { text: "Ours", value: (e) => e.adjusted_loss ?? Infinity, show: (e) => format.loss(e.adjusted_loss) },
    paper: {
      text: "Paper",
      value: (e) => e.printed,
      show: (e) => (e.printed === null ? NO_PAPER : format.plain(e.printed)),
    },
    bayes: { text: "Ours ÷ Bayes limit", value: (e) => e.bayes_ratio, show: (e) => format.ratio(e.bayes_ratio) },
    change: { text: "Ours ÷ paper", value: change, show: (e) => format.ratio(change(e)) },
  };

  function change({ adjusted_loss: loss, printed }) {
    return loss === null || !printed ? null : loss / printed;
  }

  const rowKey = (e) => `${e.method}/${e.layers ?? ""}/${e.heads ?? 1}/${e.registers ?? 0}`;

  function compareRows(a, b) {
    const rank = (row) => [
      row.layers === null ? 1 : 0,
      row.registers ?? 0,
      row.heads ?? 1,
      row.layers ?? 0,
      Object.keys(ridgeformer.methods).indexOf(row.method),
    ];
    const [left, right] = [rank(a), rank(b)];
    const place = left.findIndex((value, k) => value !== right[k]);
    return place < 0 ? 0 : left[place] - right[place];
  }

  /** The table's rows and columns in the paper's order. */
  function arrange(entries) {
    const rows = new Map();
    for (const entry of entries) {
      const row = rows.get(rowKey(entry)) ?? {
        method: entry.method,
        layers: entry.layers,
        heads: entry.heads,
        registers: entry.registers,
        cells: new Map(),
      };
      row.cells.set(entry.noise, entry);
      rows.set(rowKey(entry), row);
    }
    const columns = [...new Set(entries.map((entry) => entry.noise))].sort(ridgeformer.baselines.comparePriors);
    return { rows: [...rows.values()].sort(compareRows), columns };
  }

  /** The best number of each column except the Bayes limit, in the view shown. */
  function bestOf(rows, columns, view) {
    const best = new Map();
    for (const noise of columns) {
      const values = rows
        .filter((row) => row.method !== "bayes" && row.cells.has(noise))
        .map((row) => view.value(row.cells.get(noise)));
      best.set(noise, Math.min(...values.filter((value) => value !== null)));
    }
    return best;
  }

  /** How our number compares with the paper's; see `Entry.verdict` in reproduction/table1.py. */
  const VERDICTS = {
    better: { mark: "▾", shade: "better", words: "ours is better than printed" },
    same: { mark: "", shade: "", words: "the two agree within their sampling errors" },
    worse: { mark: "▴", shade: "worse", words: "ours is worse than printed" },
    "impossible as printed": {
      mark: "✕",
      shade: "impossible",
      words: "impossible as printed: no model that is linear in y can have such a low loss",
    },
  };

  /** Everything known of a cell, in a sentence. */
  function sentence(entry, sequences) {
    const error = entry.standard_error === null ? "" : ` ± ${entry.standard_error.toPrecision(1).replace("-", "−")}`;
    const paper =
      entry.printed === null
        ? "not in the paper"
        : `paper ${format.plain(entry.printed)}${entry.verdict ? `, ${VERDICTS[entry.verdict]?.words ?? entry.verdict}` : ""}`;
    const bayes =
      format.ratio(entry.bayes_ratio) === "–" || entry.method === "bayes"
        ? ""
        : `; ${format.ratio(entry.bayes_ratio)} the Bayes limit`;
    const tail = `median ${format.loss(entry.median)}, 99 % below ${format.loss(entry.p99)}, worst ${format.loss(entry.maximum)}`;
    return `${format.row(entry)} on ${format.prior(entry.noise)}: ${format.loss(entry.adjusted_loss)}${error} (${paper})${bayes}; ${tail} of ${format.count(sequences)} sequences.`;
  }

  /**
   * Table 1 with its switches.
   * @param {{entries: object[], sequences: number}} record
   * @param {(entry: object) => (string|null)} modelOf the name of an entry's model, if the explorer has it
   * @param {(name: string) => void} open opens a model
   * @returns {HTMLElement}
   */
  function table1(record, modelOf, open) {
    const { rows, columns } = arrange(record.entries);
    const start = state.read();
    let show = Object.hasOwn(VIEWS, start.show ?? "") ? start.show : "ours";
    let [sortBy, down] = [columns.includes(start.sort) ? start.sort : null, start.down === "1"];
    let shade = start.shade !== "0";
    let focus = [0, 0]; // row and column of the grid that the Tab key reaches; row 0 holds the headers
    const grid = el("table", { class: "table1", role: "grid", id: "table1-grid", "aria-describedby": "table1-help" });
    const readout = el("p", { class: "readout", id: "table1-readout" });
    const prompt = "Point at a number, or move to it with the arrow keys: what is known about it is written here.";

    function sorted() {
      if (sortBy === null) return rows;
      const number = (row) => (row.cells.has(sortBy) ? VIEWS[show].value(row.cells.get(sortBy)) : null);
      const there = rows.filter((row) => number(row) !== null);
      const absent = rows.filter((row) => number(row) === null);
      there.sort((a, b) => (down ? -1 : 1) * (number(a) - number(b)) || compareRows(a, b));
      return [...there, ...absent];
    }

    function sort(noise) {
      [sortBy, down] = noise === null ? [null, false] : [noise, sortBy === noise && !down];
      state.write({ sort: sortBy, down: down ? 1 : null });
      draw();
      grid.rows[0].cells[noise === null ? 0 : columns.indexOf(noise) + 1].querySelector("button").focus();
      dom.announce(
        noise === null
          ? "In the paper’s order."
          : `Sorted by ${format.prior(noise)}, ${down ? "largest" : "smallest"} first.`,
      );
    }

    function header(noise) {
      const sortedBy = noise === null ? sortBy === null : sortBy === noise;
      const order = noise === null || !sortedBy ? "none" : down ? "descending" : "ascending";
      const sign = { none: "", ascending: " ↑", descending: " ↓" }[order];
      return el(
        "th",
        { scope: "col", "aria-sort": order },
        el(
          "button",
          {
            type: "button",
            class: "sort",
            title: noise === null ? "The paper’s order" : `Sort by ${format.prior(noise)}`,
            on: { click: () => sort(noise) },
          },
          noise === null ? "Model" : format.prior(noise),
          el("span", { class: "sort-sign", "aria-hidden": "true" }, sign),
        ),
      );
    }

    function cell(row, noise, best) {
      const entry = row.cells.get(noise);
      if (!entry) return el("td", { class: "empty" }, el("span", { class: "visually-hidden" }, "not measured"));
      const view = VIEWS[show];
      const name = modelOf(entry);
      const verdict = shade && entry.verdict && row.layers !== null ? entry.verdict : "";
      const text = [
        el("span", { class: "number" }, view.show(entry)),
        verdict && el("span", { class: "mark", "aria-hidden": "true" }, VERDICTS[verdict]?.mark ?? ""),
        verdict && el("span", { class: "visually-hidden" }, `, ${VERDICTS[verdict]?.words ?? verdict}`),
      ];
      return el(
        "td",
        {
          class:
            [VERDICTS[verdict]?.shade ?? "", view.value(entry) === best.get(noise) && row.method !== "bayes" ? "best" : ""].join(" ").trim() ||
            null,
          on: { pointerenter: () => dom.fill(readout, sentence(entry, record.sequences)) },
          data: { row: rowKey(entry), noise },
        },
        name !== null
          ? el(
              "button",
              { type: "button", class: "open", data: { model: name }, on: { click: () => open(name) } },
              text,
            )
          : text,
      );
    }

    function rowOf(row, previous, best) {
      const differs = (field) => row[field] !== previous[field];
      const group = sortBy === null && previous && ["layers", "heads", "registers"].some(differs);
      const ours = [...row.cells.values()].every((entry) => entry.printed === null);
      return el(
        "tr",
        { class: group ? "group" : null },
        el("th", { scope: "row", title: ridgeformer.methods[row.method]?.summary }, format.row(row), ours && [" ", el("span", { class: "tag" }, "ours")]),
        columns.map((noise) => cell(row, noise, best)),
      );
    }

    const target = (td) => td.querySelector("button") ?? td;

    function place(row, column) {
      const cells = grid.rows[Math.max(0, Math.min(grid.rows.length - 1, row))].cells;
      return cells[Math.max(0, Math.min(cells.length - 1, column))];
    }

    function rove() {
      for (const line of grid.rows) for (const td of line.cells) target(td).tabIndex = -1;
      target(place(...focus)).tabIndex = 0;
    }

    function draw() {
      const best = bestOf(rows, columns, VIEWS[show]);
      const lines = sorted();
      dom.fill(
        grid,
        el(
          "caption",
          {},
          `Adjusted loss on ${format.count(record.sequences)} fresh sequences: ${VIEWS[show].text.toLowerCase()}. Rows are models by layers, then baselines; columns are noise priors.`,
        ),
        el("thead", {}, el("tr", {}, header(null), columns.map(header))),
        el(
          "tbody",
          {},
          lines.map((row, k) => rowOf(row, lines[k - 1], best)),
        ),
      );
      rove();
    }

    grid.addEventListener("keydown", (event) => {
      const [row, column] = focus;
      const [height, width] = [grid.rows.length - 1, columns.length];
      const next = {
        ArrowRight: [row, column + 1],
        ArrowLeft: [row, column - 1],
        ArrowDown: [row + 1, column],
        ArrowUp: [row - 1, column],
        Home: [event.ctrlKey ? 0 : row, 0],
        End: [event.ctrlKey ? height : row, width],
        PageDown: [row + 6, column],
        PageUp: [row - 6, column],
      }[event.key];
      if (!next) return;
      event.preventDefault();
      const goal = place(...next);
      target(goal).focus();
      goal.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
    grid.addEventListener("focusin", (event) => {
      const td = event.target.closest("td, th");
      focus = [td.parentElement.rowIndex, td.cellIndex];
      rove();
      const entry =
        td.dataset.row &&
        rows.find((row) => row.cells.size && rowKey(row) === td.dataset.row)?.cells.get(td.dataset.noise);
      dom.fill(readout, entry ? sentence(entry, record.sequences) : prompt);
    });

    const switches = el(
      "div",
      { class: "controls" },
      dom.choice({
        label: "Show",
        name: "table1-show",
        options: Object.entries(VIEWS).map(([value, { text }]) => ({ value, text })),
        value: show,
        onChange: (value) => {
          show = value;
          state.write({ show: value === "ours" ? null : value });
          draw();
        },
      }),
      el(
        "label",
        { class: "check" },
        el("input", {
          type: "checkbox",
          id: "table1-shade",
          checked: shade,
          on: {
            change: (event) => {
              shade = event.target.checked;
              state.write({ shade: shade ? null : 0 });
              draw();
            },
          },
        }),
        "Shade models that are ",
        el("span", { class: "key better" }, "▾ better"),
        " or ",
        el("span", { class: "key worse" }, "▴ worse"),
        " than printed, or ",
        el("span", { class: "key impossible" }, "✕ impossible as printed"),
      ),
    );
    draw();
    dom.fill(readout, prompt);
    return el(
      "div",
      {},
      switches,
      el(
        "p",
        { class: "quiet", id: "table1-help" },
        "Press a header to sort the table by its column, and a number to open its model in the explorer. The best number of a column is bold; the Bayes limit is not counted.",
      ),
      el("div", { class: "scroll table-frame" }, grid),
      readout,
    );
  }

  ridgeformer.table1 = table1;
}

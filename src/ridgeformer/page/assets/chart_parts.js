"use strict";
/* What charts are made of: how series look, legend, tooltip, and their numbers as a table. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format } = ridgeformer;
  const { el, svg } = dom;

  const MARKERS = {
    circle: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
    square: (r) => `M${-r * 0.88},${-r * 0.88}h${r * 1.76}v${r * 1.76}h${-r * 1.76}Z`,
    triangle: (r) => `M0,${-r * 1.2}L${r * 1.1},${r * 0.8}H${-r * 1.1}Z`,
    diamond: (r) => `M0,${-r * 1.25}L${r * 1.25},0L0,${r * 1.25}L${-r * 1.25},0Z`,
    none: () => "",
  };
  /** How a named style is drawn, so that lines differ without colour too. */
  const LOOKS = {
    full: { marker: "circle" },
    diag: { marker: "square" },
    gdpp: { marker: "triangle" },
    constrr: { dash: "2 3" },
    adarr: { dash: "7 3" },
    tunedrr: { dash: "7 3 2 3" },
    bayes: { dash: "" },
    oracle: { dash: "1 3" },
    ols: { dash: "10 4" },
  };
  const visible = (value, log) => Number.isFinite(value) && (!log || value > 0);

  /** The colour of a series as CSS. */
  function colourOf({ style }) {
    if (style && typeof style === "object") {
      const share = style.of > 1 ? (100 * (style.step - 1)) / (style.of - 1) : 100;
      return `color-mix(in oklch, var(--first), var(--last) ${share.toFixed(1)}%)`;
    }
    return `var(--${/^[a-z0-9]+$/.test(style ?? "") ? style : "accent"})`;
  }

  const lookOf = (series) => ({ marker: "none", dash: "", ...LOOKS[series.style], ...definedOnly(series) });
  const definedOnly = ({ marker, dash }) => ({ ...(marker && { marker }), ...(dash !== undefined && { dash }) });

  function markerOf(series, x, y, radius = 3.2) {
    const look = lookOf(series);
    return svg("path", {
      d: (MARKERS[look.marker] ?? MARKERS.none)(radius),
      transform: `translate(${x.toFixed(2)},${y.toFixed(2)})`,
      class: series.hollow ? "marker hollow" : "marker",
      style: { "--ink": colourOf(series) },
    });
  }

  /** All series of a spec, its floor among them. */
  function allSeries(spec) {
    const floor = spec.floor && Number.isFinite(spec.floor.value);
    return floor ? [...spec.series, { name: spec.floor.name, level: spec.floor.value, style: "bayes" }] : spec.series;
  }

  /** The tooltip, one for the page; it follows its place when the page scrolls. */
  const tooltip = {
    node: null,
    place: null,
    /** Show lines at a place of the window, given as a function: `() => [x, y]`. */
    show(lines, place) {
      this.node ??= document.body.appendChild(el("div", { class: "tooltip", "aria-hidden": "true" }));
      dom.fill(
        this.node,
        lines.map((line, k) => el(k ? "div" : "strong", {}, line)),
      );
      this.node.hidden = false;
      this.place = place;
      this.move();
    },
    move() {
      if (!this.place) return;
      const [x, y] = this.place();
      const { width, height } = this.node.getBoundingClientRect();
      const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - width - 8));
      const top = y - height - 12 < 4 ? y + 18 : y - height - 12;
      this.node.style.setProperty("transform", `translate(${left}px, ${top}px)`);
    },
    hide() {
      if (this.node) this.node.hidden = true;
      this.place = null;
    },
  };
  globalThis.addEventListener?.("scroll", () => tooltip.move(), { passive: true });

  /** What is said of a point. */
  function describe(spec, { series, k, at, value }) {
    const show = spec.y.format ?? format.loss;
    const band = series.low && series.high ? ` (${show(series.low[k])} to ${show(series.high[k])})` : "";
    const note = Array.isArray(series.note) ? series.note[k] : series.note;
    return [
      series.name,
      `${spec.x.label}: ${format.plain(at)}`,
      `${spec.y.label}: ${show(value)}${band}`,
      ...(note ? [note] : []),
    ];
  }

  function swatch(series) {
    const look = lookOf(series);
    return svg(
      "svg",
      { class: "swatch", width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" },
      !series.points &&
        svg("path", {
          class: "line",
          d: "M1,6H25",
          "stroke-dasharray": look.dash,
          style: { "--ink": colourOf(series) },
        }),
      markerOf(series, 13, 6, 3.4),
    );
  }

  /**
   * A legend whose entries hide and show series.
   * @param {Series[]} series
   * @param {Set<string>} hidden changed in place
   * @param {() => void} onChange
   */
  function legend(series, hidden, onChange) {
    const seen = new Map(series.map((one) => [one.name, one]));
    const button = (one) => {
      const node = el(
        "button",
        { type: "button", class: "legend-entry", "aria-pressed": String(!hidden.has(one.name)) },
        swatch(one),
        one.name,
      );
      node.addEventListener("click", () => {
        if (!hidden.delete(one.name)) hidden.add(one.name);
        node.setAttribute("aria-pressed", String(!hidden.has(one.name)));
        onChange();
      });
      return node;
    };
    return el("div", { class: "legend", role: "group", "aria-label": "Series shown" }, [...seen.values()].map(button));
  }

  /** The numbers of charts as tables, made when they are opened. */
  function numbers(getSpecs) {
    const body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of the chart" });
    const tableOf = (spec) => {
      const show = spec.y.format ?? format.loss;
      const series = allSeries(spec);
      const xs = [...new Set(series.flatMap((one) => one.x ?? []))].sort((a, b) => a - b);
      const cell = (one, at) => {
        if (one.level !== undefined) return show(one.level);
        const k = one.x.indexOf(at);
        return k < 0 || one.y[k] === undefined ? "" : show(one.y[k]);
      };
      return el(
        "table",
        { class: "plain" },
        el("caption", {}, `${spec.title}: ${spec.y.label}`),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, spec.x.label),
            series.map((one) => el("th", { scope: "col" }, one.name)),
          ),
        ),
        el(
          "tbody",
          {},
          xs.map((at) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, format.plain(at)),
              series.map((one) => el("td", {}, cell(one, at))),
            ),
          ),
        ),
      );
    };
    const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), body);
    details.addEventListener("toggle", () => details.open && dom.fill(body, getSpecs().map(tableOf)));
    return details;
  }

  ridgeformer.chartParts = { visible, colourOf, lookOf, markerOf, allSeries, tooltip, describe, legend, numbers };
}

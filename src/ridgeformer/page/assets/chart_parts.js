"use strict";
/* What charts are made of: axes, looks of series, legend, tooltip, and their numbers as a table. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format } = ridgeformer;
  const { el, svg } = dom;

  const FAR = 1e4; // pixels; beyond every screen, and a number that SVG can read

  /** A round step so that there are about `count` of them in `span`: 1, 2 or 5 times a power of ten. */
  function niceStep(span, count) {
    const raw = span / Math.max(1, count);
    const size = 10 ** Math.floor(Math.log10(raw));
    return size * ([1, 2, 5].find((factor) => raw <= factor * size * 1.0001) ?? 10);
  }

  function linearTicks([low, high], count, whole) {
    const step = Math.max(niceStep(high - low, count), whole ? 1 : 0);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
      ticks.push({ value: k * step, text: (k * step).toFixed(digits).replace("-", "−") });
    }
    return ticks;
  }

  function logTicks([low, high], count) {
    const [first, last] = [Math.log10(low), Math.log10(high)];
    const decades = last - first;
    const ticks = [];
    if (decades > 2.2) {
      const stride = Math.max(1, Math.ceil(decades / count));
      for (let k = Math.ceil(first / stride - 1e-9) * stride; k <= last + 1e-9; k += stride) {
        ticks.push({ value: 10 ** k, text: format.power(k) });
      }
      return ticks;
    }
    const factors = decades > 1.1 ? [1, 3] : decades > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8];
    for (let k = Math.floor(first); k <= last; k += 1) {
      for (const factor of factors) {
        const value = Number(`${factor}e${k}`);
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push({ value, text: format.plain(value) });
      }
    }
    return ticks;
  }

  /**
   * A scale from the numbers of an axis to a range of pixels.
   * @param {{limits: [number, number], log?: boolean, whole?: boolean}} axis
   * @param {[number, number]} range
   * @param {number} count about how many ticks there is room for
   */
  function scale({ limits, log = false, whole = false }, range, count = 5) {
    const warp = log ? Math.log : (value) => value;
    const [from, to] = limits.map(warp);
    const size = to - from || 1;
    const place = (value) =>
      Math.max(-FAR, Math.min(FAR, range[0] + ((warp(value) - from) / size) * (range[1] - range[0])));
    return { place, ticks: log ? logTicks(limits, count) : linearTicks(limits, count, whole), limits };
  }

  const circle = (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`;
  /** A polygon through points given in units of r. */
  const polygon = (...points) => (r) => {
    const places = points.map((point) => point.map((number) => (number * r).toFixed(2)).join());
    return `M${places.join("L")}Z`;
  };
  const turned = (count, radius, start) =>
    Array.from({ length: count }, (_, k) => {
      const [angle, size] = [start + (2 * Math.PI * k) / count, radius(k)];
      return [size * Math.sin(angle), -size * Math.cos(angle)];
    });
  function plus(r) {
    const [a, b] = [0.42 * r, 0.8 * r];
    return `M${-a},${-a}v${-b}h${2 * a}v${b}h${b}v${2 * a}h${-b}v${b}h${-2 * a}v${-b}h${-b}v${-2 * a}Z`;
  }
  /** By the letters that the registries of methods use. */
  const MARKERS = {
    o: circle,
    s: polygon([-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]),
    "^": polygon([0, -1.2], [1.1, 0.8], [-1.1, 0.8]),
    v: polygon([0, 1.2], [1.1, -0.8], [-1.1, -0.8]),
    D: polygon([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]),
    P: plus,
    X: polygon(...turned(8, (k) => (k % 2 ? 0.5 : 1.35), Math.PI / 4)),
    "*": polygon(...turned(10, (k) => (k % 2 ? 0.65 : 1.6), 0)),
    h: polygon(...turned(6, () => 1.15, 0)),
  };
  const visible = (value, log) => Number.isFinite(value) && (!log || value > 0);

  /** A look's colour as CSS: of a method, made lighter or darker for the page, or of a place in an order, "3/8". */
  function colourOf(look) {
    const [, place, count] = look?.colour.match(/^(\d+)\/(\d+)$/) ?? [];
    if (count) {
      const share = count > 1 ? (100 * (place - 1)) / (count - 1) : 100;
      return `color-mix(in oklch, var(--first), var(--last) ${share.toFixed(1)}%)`;
    }
    const known = /^#[0-9a-f]{6}$/i.test(look?.colour ?? "");
    return known ? `oklch(from ${look.colour} var(--ink-lightness) c h)` : "var(--accent)";
  }

  /** The look of a method, by its name in files. */
  const lookOf = (method) => ridgeformer.methods?.[method]?.look ?? { colour: "" };

  const dashes = ({ look }) => (look.dashes ?? []).map((length) => (2 * length).toFixed(1)).join(" ");
  const keysOf = (series) => series.keys ?? [series.name];

  function markerOf(series, x, y, radius = 3.2) {
    const draw = MARKERS[series.look.marker];
    return svg("path", {
      d: draw ? draw(radius) : "",
      transform: `translate(${x.toFixed(2)},${y.toFixed(2)})`,
      class: series.hollow ? "marker hollow" : "marker",
      style: { "--ink": colourOf(series.look) },
    });
  }

  /** All series of a chart, its floor among them. */
  const allSeries = (chart) => (chart.floor ? [...chart.series, chart.floor] : chart.series);

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
  function describe(chart, { series, k, at, value }) {
    const known = Number.isFinite(series.low?.[k]) && Number.isFinite(series.high?.[k]);
    const interval = known ? ` (${format.loss(series.low[k])} to ${format.loss(series.high[k])})` : "";
    const note = Array.isArray(series.note) ? series.note[k] : series.note;
    return [
      series.name,
      `${chart.x.label}: ${format.plain(at)}`,
      `${chart.y.label}: ${format.loss(value)}${interval}`,
      ...(note ? [note] : []),
    ];
  }

  function swatch(series) {
    return svg(
      "svg",
      { class: "swatch", width: 26, height: 12, viewBox: "0 0 26 12", "aria-hidden": "true" },
      !series.points &&
        svg("path", {
          class: "line",
          d: "M1,6H25",
          "stroke-dasharray": dashes(series),
          style: { "--ink": colourOf(series.look) },
        }),
      markerOf(series, 13, 6, 3.4),
    );
  }

  /**
   * A legend whose entries hide and show what belongs to them.
   * @param {Series[]} entries
   * @param {Set<string>} hidden names of entries; changed in place
   * @param {() => void} onChange
   */
  function legend(entries, hidden, onChange) {
    const button = (one) => {
      const summary = Object.values(ridgeformer.methods ?? {}).find(({ label }) => label === one.name)?.summary;
      const node = el(
        "button",
        { type: "button", class: "legend-entry", title: summary, "aria-pressed": String(!hidden.has(one.name)) },
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
    const named = new Map(entries.map((one) => [one.name, one]));
    return el("div", { class: "legend", role: "group", "aria-label": "Series shown" }, [...named.values()].map(button));
  }

  /** The numbers of a chart: a row for each x, a column for each series. */
  function tableOf(chart) {
    const series = allSeries(chart).filter((one) => !one.faint);
    const xs = [...new Set(series.flatMap((one) => one.x ?? []))].sort((a, b) => a - b);
    const cell = (one, at) => {
      const value = one.level ?? one.y[one.x.indexOf(at)] ?? null;
      return value === null ? "" : format.loss(value);
    };
    return dom.table({
      caption: `${chart.title}: ${chart.y.label}`,
      head: [chart.x.label, ...series.map((one) => one.name)],
      rows: xs.map((at) => [format.plain(at), ...series.map((one) => cell(one, at))]),
    });
  }

  /** The numbers of charts as tables, made when they are opened. */
  function numbers(getCharts) {
    const body = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of the chart" });
    const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"), body);
    details.addEventListener("toggle", () => details.open && dom.fill(body, getCharts().map(tableOf)));
    return details;
  }

  const drawing = { visible, colourOf, lookOf, dashes, keysOf, markerOf, allSeries };
  ridgeformer.chartParts = { scale, ...drawing, tooltip, describe, legend, numbers };
}

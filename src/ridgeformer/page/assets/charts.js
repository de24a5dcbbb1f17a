"use strict";
/* Line charts: hover, touch or arrow keys read a point; the legend hides and shows series; the numbers are also a table. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom } = ridgeformer;
  const { scale, visible, colourOf, dashes, keysOf, markerOf, allSeries, tooltip, describe, legend, numbers } =
    ridgeformer.chartParts;
  const { el, svg } = dom;

  /**
   * A chart as plots/specification.py describes it; here also with
   * @typedef {object} ChartSpec
   * @property {Series[]} [legend] entries, if not all series
   * @property {number} [height] pixels
   * @property {boolean} [compact] one of many: fewer ticks, no legend, no table
   */

  const CHARACTER = 6.6; // pixels of a digit at the size of the ticks

  /** A line, with a gap wherever there is nothing to draw. */
  function linePath(points, steps = false) {
    let pen = "M";
    let path = "";
    for (const point of points) {
      if (point === null) {
        pen = "M";
      } else {
        const [x, y] = point.map((number) => number.toFixed(2));
        path += steps && pen === "L" ? `H${x}V${y}` : `${pen}${x},${y}`;
        pen = "L";
      }
    }
    return path;
  }

  /** Everything that depends on numbers and width: scales, and where each point is. */
  function layout(spec, width, hidden) {
    const shown = allSeries(spec).filter((series) => !keysOf(series).some((key) => hidden.has(key)));
    const log = Boolean(spec.y.log);
    const compact = Boolean(spec.compact);
    const height = spec.height ?? (compact ? 170 : Math.min(360, Math.max(240, width * 0.5)));
    const bottom = height - (compact ? 20 : 40);
    const top = compact ? 8 : 26;
    const y = scale(spec.y, [bottom, top], compact ? 4 : 6);
    const left = 10 + CHARACTER * Math.max(2, ...y.ticks.map((tick) => tick.text.length));
    const inset = spec.x.whole ? 10 : 0;
    const x = scale(spec.x, [left + inset, width - 10 - inset], Math.max(4, width / 70));
    const points = [];
    for (const series of shown) {
      series.y?.forEach((value, k) => {
        if (visible(value, log) && visible(series.x[k], spec.x.log))
          points.push({ series, k, x: x.place(series.x[k]), y: y.place(value), value, at: series.x[k] });
      });
    }
    return { shown, log, compact, width, height, top, bottom, left, x, y, points };
  }

  function drawAxes(spec, plan) {
    const { x, y, left, top, width, bottom, height, compact } = plan;
    const [low, high] = x.limits;
    return [
      y.ticks.map((tick) => [
        svg("line", { class: "grid-line", x1: left, x2: width - 10, y1: y.place(tick.value), y2: y.place(tick.value) }),
        svg("text", { class: "tick", x: left - 6, y: y.place(tick.value) + 4, "text-anchor": "end" }, tick.text),
      ]),
      x.ticks.map((tick) =>
        svg("text", { class: "tick", x: x.place(tick.value), y: bottom + 15, "text-anchor": "middle" }, tick.text),
      ),
      svg("line", { class: "axis", x1: left, x2: width - 10, y1: bottom, y2: bottom }),
      !compact && svg("text", { class: "axis-label", x: 2, y: 13 }, spec.y.label),
      !compact &&
        svg("text", { class: "axis-label", x: width - 10, y: height - 6, "text-anchor": "end" }, spec.x.label),
      spec.shades?.map((shade) => {
        const [from, to] = [Math.max(low, shade[0]), Math.min(high, shade[1])].map(x.place);
        const single = Math.max(0, 6 - (to - from)); // a single level is as wide as can be seen, around its place
        const place = { x: from - single / 2, y: top, width: to - from + single, height: bottom - top };
        return svg("rect", { class: "shade", ...place });
      }),
      spec.remark
        ?.split("\n")
        .map((line, k, lines) =>
          svg("text", { class: "remark", x: left + 8, y: bottom - 8 - 14 * (lines.length - 1 - k) }, line),
        ),
    ];
  }

  function drawSeries(series, plan) {
    const { x, y, left, width, log } = plan;
    const ink = { "--ink": colourOf(series.look) };
    const line = (d, name) =>
      svg("path", { class: `line ${name}`, d, "stroke-dasharray": name === "faint" ? "" : dashes(series), style: ink });
    if (series.level !== undefined) {
      return visible(series.level, log) ? [line(`M${left},${y.place(series.level)}H${width - 10}`, "level")] : [];
    }
    const point = (values) => (k) => (visible(values[k], log) ? [x.place(series.x[k]), y.place(values[k])] : null);
    const keys = [...series.x.keys()];
    const parts = [];
    if (series.low) {
      const ends = keys.filter((k) => visible(series.low[k], log) && visible(series.high[k], log));
      const bars = ends.map((k) => `M${x.place(series.x[k])},${y.place(series.low[k])}V${y.place(series.high[k])}`);
      const outline = linePath([...ends.map(point(series.high)), ...ends.toReversed().map(point(series.low))]);
      if (series.bars) parts.push(svg("path", { class: "line level", d: bars.join(""), style: ink }));
      else if (outline) parts.push(svg("path", { class: "band", d: `${outline}Z`, style: ink }));
    }
    if (!series.points) {
      parts.push(line(linePath(keys.map(point(series.y)), series.steps), series.faint ? "faint" : ""));
    }
    for (const k of series.faint ? [] : (series.marked ?? keys)) {
      const place = point(series.y)(k);
      if (place) parts.push(markerOf(series, ...place, plan.compact ? 2.6 : 3.4));
    }
    return parts;
  }

  let clips = 0;

  /**
   * A line chart.
   * @param {ChartSpec} spec
   * @returns {HTMLElement & {update: (spec: ChartSpec) => void, hide: (names: Set<string>) => void}} `update` draws
   *   other numbers in the same place, `hide` leaves out series by name
   */
  function lineChart(spec) {
    let hidden = new Set();
    let plan = null;
    let active = null;
    let width = spec.compact ? 260 : 640;
    const clip = `clip-${(clips += 1)}`;
    const canvas = svg("svg", {
      class: "canvas",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "line chart",
    });
    const cursor = svg("g", { class: "cursor", "pointer-events": "none" });
    const cut = el("p", { class: "chart-note", hidden: true });
    const legendPlace = el("div", {});
    const root = el("div", { class: spec.compact ? "chart compact" : "chart" });

    function draw() {
      plan = layout(spec, width, hidden);
      canvas.setAttribute("viewBox", `0 0 ${width} ${plan.height}`);
      canvas.setAttribute("height", plan.height);
      canvas.setAttribute(
        "aria-label",
        `${spec.title}. ${spec.y.label} against ${spec.x.label}. Arrow keys read the points.`,
      );
      const frame = {
        x: plan.left - 4,
        y: plan.top - 4,
        width: width - plan.left - 2,
        height: plan.bottom - plan.top + 8,
      };
      dom.fill(
        canvas,
        svg("clipPath", { id: clip }, svg("rect", frame)),
        drawAxes(spec, plan),
        svg(
          "g",
          { "clip-path": `url(#${clip})` },
          plan.shown.map((series) => drawSeries(series, plan)),
        ),
        cursor,
      );
      const beyond = plan.points.filter((point) => point.y < plan.top - 1 || point.y > plan.bottom + 1).length;
      cut.hidden = beyond === 0 || spec.compact;
      dom.fill(
        cut,
        beyond
          ? `The axis is cut: ${beyond} ${beyond === 1 ? "point lies" : "points lie"} beyond it. Open “Numbers” to see them.`
          : "",
      );
      active = null;
      dom.fill(cursor);
    }

    function mark(point, speak) {
      active = point;
      dom.fill(
        cursor,
        svg("circle", {
          class: "cursor-ring",
          cx: point.x,
          cy: Math.max(plan.top, Math.min(plan.bottom, point.y)),
          r: 6.5,
        }),
      );
      const lines = describe(spec, point);
      tooltip.show(lines, () => {
        const box = canvas.getBoundingClientRect();
        const factor = box.width / width;
        return [box.left + point.x * factor, box.top + Math.max(plan.top, point.y) * factor];
      });
      if (speak) dom.announce(lines.join(", "));
    }

    function leave() {
      dom.fill(cursor);
      active = null;
      tooltip.hide();
    }

    function onPointer(event) {
      const box = canvas.getBoundingClientRect();
      const [px, py] = [
        (event.clientX - box.left) * (width / box.width),
        (event.clientY - box.top) * (width / box.width),
      ];
      let best = null;
      let least = Infinity;
      for (const point of plan.points) {
        const away = (point.x - px) ** 2 * 4 + (point.y - py) ** 2; // readers aim along x
        if (away < least) [best, least] = [point, away];
      }
      if (best) mark(best, false);
    }

    function onKey(event) {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      if (event.key === "Escape") leave();
      if (!step || !plan.points.length) return;
      event.preventDefault();
      if (!active) {
        mark(plan.points[0], true);
        return;
      }
      const series = [...new Set(plan.points.map((point) => point.series))];
      if (step[0]) {
        const own = plan.points.filter((point) => point.series === active.series);
        mark(own[Math.max(0, Math.min(own.length - 1, own.indexOf(active) + step[0]))], true);
        return;
      }
      const other = series[(series.indexOf(active.series) + step[1] + series.length) % series.length];
      const near = plan.points.filter((point) => point.series === other);
      mark(
        near.reduce((a, b) => (Math.abs(b.x - active.x) < Math.abs(a.x - active.x) ? b : a)),
        true,
      );
    }

    function drawLegend() {
      if (!spec.compact) dom.fill(legendPlace, legend(spec.legend ?? allSeries(spec), hidden, draw));
    }

    canvas.addEventListener("pointermove", onPointer);
    canvas.addEventListener("pointerdown", onPointer);
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("keydown", onKey);
    dom.append(root, legendPlace, canvas, cut, !spec.compact && numbers(() => [spec]));
    drawLegend();
    draw();
    new ResizeObserver(() => {
      const wide = Math.round(root.clientWidth);
      if (wide > 0 && wide !== width) {
        width = wide;
        draw();
      }
    }).observe(root);

    root.update = (next) => {
      const named = (one) =>
        allSeries(one)
          .map((series) => series.name)
          .join("\n");
      const same = named(spec) === named(next);
      spec = next;
      if (!same) drawLegend(); // a legend that is made again loses the focus
      draw();
    };
    root.hide = (names) => {
      hidden = names;
      draw();
    };
    return root;
  }

  ridgeformer.lineChart = lineChart;
}

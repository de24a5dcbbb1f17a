"use strict";
// The pictures of the explorer: error per layer, weights per layer, predictions against targets.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.plots = (() => {
  const { el, svg, fill, choice } = ridgeformer.dom;
  const { scale, colourOf, lookOf } = ridgeformer.chartParts;
  const { method, loss: shortLoss } = ridgeformer.format;
  const { dot } = ridgeformer.linearAlgebra;
  const { COMPARED, labelOf } = ridgeformer.explorer.results;
  const { AVERAGED } = ridgeformer.explorer.settings;
  const BAYES_NOTE =
    "The Bayes predictor is the best method that is not told σ, on average over the noise levels of the training. At one single σ, another method can be better.";
  /** What the error axis can show; what lies beyond is cut off, and said to be. */
  const [LOWEST, HIGHEST] = [1e-20, 100];

  /** Draw again whenever the width changes; `draw` is given it in pixels. */
  function fitted(node, draw) {
    let width = 0;
    new ResizeObserver(() => {
      const wide = Math.round(node.clientWidth);
      if (wide > 0 && wide !== width) draw((width = wide));
    }).observe(node);
  }

  /** The nearest of …, 1, 2, 5, 10, … at or below a number (direction −1), or at or above it (1). */
  function round(value, direction) {
    const power = Math.floor(Math.log10(value));
    const candidates = [1, 2, 5, 10].map((digit) => Number(`${digit}e${power}`));
    return direction < 0 ? candidates.findLast((one) => one <= value) : candidates.find((one) => one >= value);
  }

  /** An axis for some errors that moves by round steps only, so that it stands still most of the time. */
  function errorDomain(errors) {
    const shown = errors.filter((error) => error >= LOWEST && error <= HIGHEST);
    if (shown.length === 0) return [0.1, HIGHEST];
    const low = round(Math.min(...shown), -1);
    const beyond = errors.some((error) => !(error <= HIGHEST));
    return [low, Math.max(beyond ? HIGHEST : round(Math.max(...shown), 1), 5 * low)];
  }

  /** What the error chart shows. */
  function errorSpec(settings, model, { start, layers, baselines }) {
    const errors = [start, ...layers];
    const compared = COMPARED.filter((name) => name in baselines);
    const [whose, mean] = [settings.against === "oracle" ? "w*" : "w", settings.average ? "mean " : ""];
    return {
      title: "Error after each layer",
      x: { label: "layers", whole: true, limits: [0, model.layers] },
      y: {
        label: `${mean}error ½‖ŵ − ${whose}‖² (log scale)`,
        log: true,
        limits: errorDomain([...errors, ...Object.values(baselines)]),
      },
      height: 290,
      series: [
        { name: method(model.kind), look: lookOf(model.kind), x: errors.map((_, k) => k), y: errors },
        ...compared.map((name) => ({ name: labelOf(name), level: baselines[name], look: lookOf(name) })),
      ],
    };
  }

  /**
   * Error after each layer, on a log axis.
   * @param {(patch: object) => void} onChange
   * @returns {{element: HTMLElement,
   *     update: (settings: object, model: object, result: object, errors: object) => void}}
   */
  function errorChart(onChange) {
    const place = el("div", {});
    const choices = el("div", { class: "explorer-choices" }, errorChoices(onChange));
    const note = el("p", { class: "chart-note" });
    let chart = null;
    return {
      element: el("div", {}, choices, place, note, el("p", { class: "chart-note" }, BAYES_NOTE)),
      update(settings, model, result, errors) {
        check(choices, settings.against, settings.average ? "mean" : "one");
        const spec = errorSpec(settings, model, errors);
        if (chart) chart.update(spec);
        else place.append((chart = ridgeformer.lineChart(spec)));
        fill(note, beyondText(spec));
      },
    };
  }

  /** Which lines the axis leaves out; of points the chart itself says so. */
  function beyondText({ series, y: { limits } }) {
    const beyond = series.filter(({ level }) => level !== undefined && !(level >= limits[0] && level <= limits[1]));
    const listed = beyond.map(({ name, level }) => `${name} ${shortLoss(level)}`).join(", ");
    return listed && `Beyond the axis: ${listed}.`;
  }

  /** Choose these values among radio buttons. */
  function check(node, ...values) {
    for (const input of node.querySelectorAll("input")) input.checked = values.includes(input.value);
  }

  /** Against what, and over how many sequences. */
  function errorChoices(onChange) {
    return [
      choice({
        label: "Distance to",
        name: "explorer-against",
        options: [
          { value: "w", text: "the true w" },
          { value: "oracle", text: "the oracle’s w*" },
        ],
        value: "w",
        onChange: (against) => onChange({ against }),
      }),
      choice({
        label: "Sequences",
        name: "explorer-average",
        options: [
          { value: "one", text: "this one" },
          { value: "mean", text: `mean of ${AVERAGED}` },
        ],
        value: "mean",
        onChange: (value) => onChange({ average: value === "mean" }),
      }),
    ];
  }

  /** The outline of a dot, or of a triangle at the edge that it lies beyond; nothing for what is no number. */
  function mark(x, y, [top, bottom], radius = 3.2) {
    if (!Number.isFinite(y)) return "";
    const [left, wide] = [(x - radius).toFixed(1), (2 * radius).toFixed(1)];
    if (y < top) return `M${left},${top + 6}h${wide}l${-radius},-6Z`;
    if (y > bottom) return `M${left},${bottom - 6}h${wide}l${-radius},6Z`;
    const half = `a${radius},${radius} 0 1,0 `;
    return `M${left},${y.toFixed(1)}${half}${wide},0${half}-${wide},0Z`;
  }

  /** Weights against w and the oracle's, in the order of w. One path for all marks of a kind: there are many layers. */
  function weightsPicture(weights, { context, baselines }, kind) {
    const [width, height] = [150, 92];
    const ends = [3, height - 3];
    const order = [...context.weights.keys()].sort((a, b) => context.weights[a] - context.weights[b]);
    const [low, high] = [Math.min(0, ...context.weights), Math.max(0, ...context.weights)];
    const air = 0.15 * (high - low);
    const y = scale({ limits: [low - air, high + air] }, [ends[1], ends[0]]).place;
    const gap = width / order.length;
    const inside = (place) => Math.min(Math.max(Number.isFinite(place) ? place : y(0), ends[0]), ends[1]);
    const path = (name, draw) => {
      const d = order.map((j, place) => draw(j, gap * (place + 0.5), y(context.weights[j]))).join("");
      return svg("path", { class: name, d, style: { "--ink": colourOf(lookOf(kind)) } });
    };
    return svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      svg("line", { class: "axis", x1: 0, x2: width, y1: y(0), y2: y(0) }),
      path("explorer-gap", (j, x, level) => `M${x},${level}V${inside(y(weights[j]))}`),
      path("explorer-true", (j, x, level) => `M${x - gap * 0.36},${level}h${gap * 0.72}`),
      path("explorer-oracle", (j, x) => mark(x, y(baselines.oracle.weights[j]), ends)),
      path("explorer-found", (j, x) => mark(x, y(weights[j]), ends)),
    );
  }

  /**
   * Implicit weights after every layer; pressing a picture chooses the layer.
   * @param {(layer: number) => void} onLayer
   * @returns {{element: HTMLElement, update: (settings: object, model: object, result: object) => void}}
   */
  function weightPanels(onLayer) {
    const list = el("div", { class: "explorer-panels", role: "group", "aria-label": "Choose a layer" });
    let buttons = [];
    return {
      element: el(
        "section",
        { class: "explorer-weights", "aria-label": "Implicit weights" },
        el("h3", {}, "The weights behind each layer’s answer"),
        el(
          "p",
          { class: "explorer-note" },
          "Dots: the implicit weights ŵ, for which the layer’s prediction at x is ⟨ŵ, x⟩. Bars: the true weights w, sorted. ",
          "Rings: the oracle’s weights w*. ",
          "Choose a layer to see its predictions.",
        ),
        list,
      ),
      update(settings, model, result) {
        if (buttons.length !== model.layers) {
          buttons = Array.from({ length: model.layers }, (_, index) => {
            const press = () => onLayer(index + 1);
            return el("button", { type: "button", id: `explorer-panel-${index + 1}`, on: { click: press } });
          });
          fill(list, buttons);
          // Rows of about the same length, on a desk and on a phone.
          const columns = model.layers <= 5 ? Math.max(model.layers, 4) : Math.ceil(model.layers / 2);
          list.style.setProperty("--columns", String(columns));
          list.style.setProperty("--narrow-columns", String(model.layers <= 4 ? 2 : 3));
        }
        buttons.forEach((button, index) => {
          const { weights, loss } = result.layers[index];
          button.setAttribute("aria-pressed", String(index + 1 === (settings.layer ?? model.layers)));
          button.setAttribute("aria-label", `Layer ${index + 1}, error ${shortLoss(loss)}`);
          fill(button, el("span", {}, `Layer ${index + 1}`), weightsPicture(weights, result, model.kind));
        });
      },
    };
  }

  /** Targets and predictions of the points that are asked for. */
  function pointsOf(settings, { context }, weights) {
    const point = (x, target, special) => ({ target, found: dot(weights, x), special });
    if (settings.points === "examples") {
      return context.X.map((x, i) => point(x, context.y[i], i === 0 && settings.outlier > 0));
    }
    return context.queries.map((x, i) => point(x, dot(context.weights, x), i === settings.query - 1));
  }

  /** The end of the scatter plot's axes: that of the targets, in steps of 5, so that it rarely moves. */
  const reachOf = (points) => 5 * Math.ceil(Math.max(...points.map(({ target }) => Math.abs(target))) / 5);

  /**
   * Predictions against targets; pressing near a query chooses it.
   * @param {{onPoints: (points: string) => void, onQuery: (query: number) => void}} told
   * @returns {{element: HTMLElement, update: (settings: object, model: object, result: object) => void}}
   */
  function scatterPlot({ onPoints, onQuery }) {
    const canvas = svg("svg", { role: "img", class: "canvas explorer-canvas" });
    const holder = el("div", {}, canvas);
    const note = el("p", { class: "chart-note" });
    const picker = pointsChoice(onPoints);
    let width = 300;
    let latest = null;
    let places = [];

    canvas.addEventListener("click", (event) => {
      if (latest?.[0].points !== "queries") return;
      const box = canvas.getBoundingClientRect();
      const away = ([x, y]) => Math.hypot(x - (event.clientX - box.left), y - (event.clientY - box.top));
      const nearest = places.reduce((best, place, i) => (away(place) < away(places[best]) ? i : best), 0);
      if (away(places[nearest]) < 24) onQuery(nearest + 1); // 24 pixels: the size of a finger
    });

    function draw() {
      const [settings, model, result] = latest;
      const layer = settings.layer ?? model.layers;
      const points = pointsOf(settings, result, result.layers[layer - 1].weights);
      const reach = reachOf(points);
      const [left, top, bottom, right] = [30, 22, width - 34, width - 8];
      const x = scale({ limits: [-reach, reach] }, [left, right], 4);
      const y = scale({ limits: [-reach, reach] }, [bottom, top], 4);
      places = points.map(({ target, found }) => [x.place(target), y.place(found)]);
      const beyond = points.filter(({ found }) => !(Math.abs(found) <= reach)).length;
      const dots = (special) =>
        svg("path", {
          class: special ? "explorer-dot special" : "explorer-dot",
          d: places.map((place, i) => (points[i].special === special ? mark(...place, [top, bottom]) : "")).join(""),
          style: { "--ink": colourOf(lookOf(model.kind)) },
        });
      canvas.setAttribute("viewBox", `0 0 ${width} ${width}`);
      const label = `Predictions of layer ${layer} against ${points.length} targets, mean squared error`;
      canvas.setAttribute("aria-label", `${label} ${shortLoss(meanSquare(points))}.`);
      fill(
        canvas,
        x.ticks.map((tick) =>
          svg("text", { class: "tick", x: x.place(tick.value), y: bottom + 15, "text-anchor": "middle" }, tick.text),
        ),
        y.ticks.map((tick) => [
          svg("line", { class: "grid-line", x1: left, x2: right, y1: y.place(tick.value), y2: y.place(tick.value) }),
          svg("text", { class: "tick", x: left - 5, y: y.place(tick.value) + 4, "text-anchor": "end" }, tick.text),
        ]),
        svg("line", { class: "explorer-diagonal", x1: left, y1: bottom, x2: right, y2: top }),
        dots(false),
        dots(true),
        svg("text", { class: "axis-label", x: 2, y: 13 }, `prediction after layer ${layer}`),
        svg("text", { class: "axis-label", x: right, y: width - 4, "text-anchor": "end" }, "target"),
      );
      fill(note, beyond ? `${beyond} of ${points.length} predictions lie beyond the axis.` : "");
    }

    fitted(holder, (wide) => {
      width = Math.min(wide, 420);
      canvas.style.setProperty("width", `${width}px`);
      if (latest) draw();
    });
    return {
      element: el(
        "section",
        { class: "explorer-scatter", "aria-label": "Predictions against targets" },
        picker,
        holder,
        note,
      ),
      update(settings, model, result) {
        latest = [settings, model, result];
        check(picker, settings.points);
        draw();
      },
    };
  }

  const meanSquare = (points) =>
    points.reduce((sum, { target, found }) => sum + (found - target) ** 2, 0) / points.length;

  /** Queries, whose targets have no noise, or the examples themselves. */
  function pointsChoice(onChange) {
    const options = [
      { value: "queries", text: "new queries" },
      { value: "examples", text: "its examples" },
    ];
    return choice({ label: "Predictions for", name: "explorer-points", options, value: "queries", onChange });
  }

  return { errorChart, weightPanels, scatterPlot };
})();

"use strict";
/* The figures: tabs, drawn when first opened. Each says which record it needs. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format, state, figureData: data } = ridgeformer;
  const { el } = dom;
  const UNIFORM = "uniform:5";

  const kindOptions = data.MODELS.map((value) => ({ value, text: format.method(value) }));

  /** A choice above a place that is drawn anew for what is chosen. */
  function chooser({ label, name, options, value, draw }) {
    const place = el("div", {});
    const show = (chosen) => dom.fill(place, draw(chosen));
    const few = options.length <= 4;
    const control = few
      ? dom.choice({ label, name, options, value, onChange: show })
      : dom.select({ label, id: name, options, value, onChange: show });
    show(value);
    return [el("div", { class: "controls" }, control), place];
  }

  const nothing = () => el("p", { class: "quiet" }, "There is nothing to draw: the record has nothing of the kind.");
  const grid = (panels, label) => (panels.length ? ridgeformer.chartGrid({ panels, label }) : nothing());
  const LAYERS = "Adjusted loss (log scale) against the number of layers, one panel for each noise prior.";
  const PROFILE =
    "Adjusted loss (log scale) against the noise level σ; shaded are the levels that the models were trained on. Where a line leaves its panel it goes on beyond: point at it, or open the numbers.";

  function figure1({ table1 }) {
    return grid(data.layerPanels(table1, data.isUniform), LAYERS);
  }

  function figure2({ profiles }) {
    return [
      el("h4", {}, "Seven layers, one panel for each prior"),
      grid(data.profilePanels(profiles, data.isUniform, "adjusted"), PROFILE),
      el("h4", {}, `${format.prior(UNIFORM)}, one panel for each depth`),
      grid(data.depthPanels(profiles, UNIFORM, "adjusted"), PROFILE),
    ];
  }

  const categorical = (noise) => !data.isUniform(noise);

  function figure3({ table1, profiles }) {
    const priors = (profiles?.panels ?? []).map((panel) => panel.noise).filter(categorical);
    return [
      grid(data.layerPanels(table1, categorical), LAYERS),
      el("h4", {}, "Seven layers"),
      profiles ? grid(data.profilePanels(profiles, categorical, "adjusted"), PROFILE) : null,
      priors.map((noise) => [
        el("h4", {}, `${format.prior(noise)}, one panel for each depth`),
        grid(data.depthPanels(profiles, noise, "adjusted"), PROFILE),
      ]),
    ];
  }

  function heatmaps(model) {
    const pairs = ["Q", "P"].map((name) =>
      model[name].map((heads, layer) =>
        heads.map((matrix, head) => ({
          title: `${name} of layer ${layer + 1}${heads.length > 1 ? `, head ${head + 1}` : ""}`,
          matrix,
        })),
      ),
    );
    const all = pairs.flat(2);
    const largest = Math.max(...all.map(({ matrix }) => Math.max(...matrix.flat().map(Math.abs))));
    const line = (maps) =>
      el(
        "div",
        { class: "panels heat" },
        maps.flat().map((map) => ridgeformer.heatmap({ ...map, largest })),
      );
    return [ridgeformer.scaleBar(largest), pairs.map(line)];
  }

  function figure4({ weights }) {
    if (!weights.models.length) return nothing();
    const find = (name) => weights.models.find((model) => model.name === name);
    if (weights.models.length === 1) return [el("h4", {}, weights.models[0].name), heatmaps(weights.models[0])];
    return chooser({
      label: "Model",
      name: "figure-4-model",
      options: weights.models.map(({ name }) => ({ value: name, text: name })),
      value: weights.models[0].name,
      draw: (name) => heatmaps(find(name)),
    });
  }

  function figure5({ readouts, table1 }) {
    const floor = data.floorOf(table1.entries, readouts.noise);
    return chooser({
      label: "Models",
      name: "figure-5-kind",
      options: kindOptions,
      value: "full",
      draw: (kind) => ridgeformer.lineChart(data.readoutChart(readouts, kind, floor)),
    });
  }

  function figure6({ profiles }) {
    return [
      el("h4", {}, "Seven layers, one panel for each prior"),
      grid(
        data.profilePanels(profiles, () => true, "unadjusted"),
        "Loss (not adjusted) against the noise level σ; shaded are the levels that the models were trained on.",
      ),
    ];
  }

  function figure7({ readouts }) {
    return chooser({
      label: "Models",
      name: "figure-7-kind",
      options: kindOptions,
      value: "full",
      draw: (kind) => grid(data.readoutProfiles(readouts, kind), PROFILE),
    });
  }

  function figureBayes({ table1 }) {
    return chooser({
      label: "Models",
      name: "figure-bayes-kind",
      options: kindOptions,
      value: "full",
      draw: (kind) => ridgeformer.lineChart(data.bayesChart(table1, kind)),
    });
  }

  const MANY = 6; // lines that one chart can hold and be read

  function trainingCharts(curves, table1) {
    const chart = (chosen) => ridgeformer.lineChart(data.trainingChart(chosen, table1));
    if (curves.length <= MANY) return chart(curves);
    const kinds = [...new Set(curves.map((curve) => curve.method))].map((value) => ({
      value,
      text: format.method(value),
    }));
    return chooser({
      label: "Models",
      name: "figure-training-kind",
      options: kinds,
      value: kinds.at(-1).value,
      draw: (kind) => chart(curves.filter((curve) => curve.method === kind)),
    });
  }

  function figureTraining({ training, table1 }) {
    const priors = [...new Set(training.curves.map((curve) => curve.noise))];
    if (!priors.length) return nothing();
    return chooser({
      label: "Noise prior",
      name: "figure-training-prior",
      options: priors.map((noise) => ({ value: noise, text: format.prior(noise) })),
      value: priors[0],
      draw: (noise) =>
        trainingCharts(
          training.curves.filter((curve) => curve.noise === noise),
          table1,
        ),
    });
  }

  function figureDepth({ table1 }) {
    const priors = data.beyondPriors(table1);
    if (!priors.length)
      return el("p", { class: "quiet" }, "No model here has more than seven layers or more than one head.");
    return chooser({
      label: "Noise prior",
      name: "figure-depth-prior",
      options: priors.map((noise) => ({ value: noise, text: format.prior(noise) })),
      value: priors.includes(UNIFORM) ? UNIFORM : priors[0],
      draw: (noise) => ridgeformer.lineChart(data.depthChart(table1, noise)),
    });
  }

  const FIGURES = [
    {
      key: "1",
      tab: "1",
      title: "Loss against layers, uniform noise",
      needs: ["table1"],
      draw: figure1,
      text: "How far each kind of model gets with another layer. GD++ is linear in y, so it cannot tell how noisy a sequence is and cannot get below ridge regression with one penalty for all. Hollow markers are the paper’s values, the solid line is the Bayes limit.",
    },
    {
      key: "2",
      tab: "2",
      title: "Loss against the noise level",
      needs: ["profiles"],
      draw: figure2,
      text: "A model that adapts follows the noise level from sequence to sequence. Beyond the levels it was trained on, it is on its own.",
    },
    {
      key: "3",
      tab: "3",
      title: "Two or three noise levels",
      needs: ["table1"],
      draw: figure3,
      text: "Here σ takes one of a few values, and a model can learn to tell which.",
    },
    {
      key: "4",
      tab: "4",
      title: "What the weights look like",
      needs: ["weights"],
      draw: figure4,
      text: "P and Q of each layer, scaled alike. The lines set off the row and column of y.",
    },
    {
      key: "5",
      tab: "5",
      title: "Reading the answer out early",
      needs: ["readouts", "table1"],
      draw: figure5,
      text: "The prediction taken out after K layers. Models do not descend evenly: what a middle layer holds need not be an answer yet.",
    },
    {
      key: "6",
      tab: "6",
      title: "Loss that is not adjusted",
      needs: ["profiles"],
      draw: figure6,
      text: "As figure 2, with the oracle’s own loss left in.",
    },
    {
      key: "7",
      tab: "7",
      title: "Reading out early, by noise level",
      needs: ["readouts"],
      draw: figure7,
      text: "One panel for each depth; lines go from the first layer’s prediction to the last.",
    },
    {
      key: "bayes",
      tab: "Bayes",
      title: "How far from the best possible",
      needs: ["table1"],
      draw: figureBayes,
      text: "Ours. The loss over the Bayes limit: 1 cannot be beaten by anything that is not told σ.",
    },
    {
      key: "training",
      tab: "Training",
      title: "Loss against training time",
      needs: ["training", "table1"],
      draw: figureTraining,
      text: "Ours. The smoothed loss while training; the marker is what fresh sequences give at the end.",
    },
    {
      key: "depth",
      tab: "Depth",
      title: "Deeper, and more heads",
      needs: ["table1"],
      draw: figureDepth,
      text: "Ours. What more layers and more heads than the paper’s buy.",
    },
    {
      key: "shift",
      tab: "Shift",
      title: "Sequences unlike those of training",
      needs: ["shift"],
      draw: ({ shift }) => ridgeformer.shiftTable(shift),
      text: "Ours. The same models on other kinds of sequences.",
    },
  ];

  /** What is said where a record is missing. */
  function missing(record, commands) {
    return el(
      "p",
      { class: "missing" },
      `This needs ${record}.json, which is not there. Make it with `,
      el("code", {}, commands[record]),
      ".",
    );
  }

  function panelOf(figure, records, commands) {
    const absent = figure.needs.filter((record) => !records[record]);
    const number = /^\d$/.test(figure.key) ? `Figure ${figure.key}. ` : "";
    return [
      el("h3", {}, number + figure.title),
      el("p", { class: "figure-text" }, figure.text),
      absent.length ? absent.map((record) => missing(record, commands)) : figure.draw(records),
    ];
  }

  /**
   * All figures as tabs.
   * @param {object} records
   * @param {Object<string, string>} commands what makes each record
   * @returns {HTMLElement}
   */
  function figures(records, commands) {
    const drawn = new Set();
    const tabs = FIGURES.map((figure) =>
      el(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${figure.key}`,
          "aria-controls": `panel-${figure.key}`,
          "aria-label": `${/^\d$/.test(figure.key) ? "Figure " : ""}${figure.tab}: ${figure.title}`,
          on: { click: () => open(figure.key) },
        },
        figure.tab,
      ),
    );
    const panels = FIGURES.map((figure) =>
      el("div", { role: "tabpanel", id: `panel-${figure.key}`, "aria-labelledby": `tab-${figure.key}`, hidden: true }),
    );

    function open(key, focus = false) {
      const chosen = Math.max(
        0,
        FIGURES.findIndex((figure) => figure.key === key),
      );
      FIGURES.forEach((figure, k) => {
        tabs[k].setAttribute("aria-selected", String(k === chosen));
        tabs[k].tabIndex = k === chosen ? 0 : -1;
        panels[k].hidden = k !== chosen;
      });
      if (!drawn.has(chosen)) dom.fill(panels[chosen], panelOf(FIGURES[chosen], records, commands));
      drawn.add(chosen);
      if (focus) tabs[chosen].focus();
      state.write({ figure: chosen ? FIGURES[chosen].key : null });
    }

    const list = el("div", { class: "tabs", role: "tablist", "aria-label": "Figures" }, tabs);
    list.addEventListener("keydown", (event) => {
      const at = tabs.indexOf(event.target);
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      open(FIGURES[(next + tabs.length) % tabs.length].key, true);
    });
    open(state.read().figure);
    state.subscribe((now) => open(now.figure));
    return el("div", {}, list, panels);
  }

  ridgeformer.figures = figures;
  ridgeformer.missing = missing;
}

"use strict";
/* From records to what charts draw: one function for each figure, without touching the page. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { format, tableParts } = ridgeformer;
  const MODELS = ["gdpp", "diag", "full"];
  const RIDGES = ["constrr", "adarr", "tunedrr"];
  const ADJUSTED = "adjusted loss";
  // Beyond its training range a polynomial of degree 3^L can be anything: axes end here, the numbers do not.
  const LARGEST = 10;
  const SMALLEST = 1e-4; // what is below is as good as the oracle for every eye

  const DEPTHS = Array.from({ length: tableParts.PAPER_LAYERS }, (_, k) => k + 1);

  const isUniform = (noise) => noise.startsWith("uniform:");
  const byLayers = (a, b) => a.layers - b.layers;

  /** Series over layers for one prior: models as lines, baselines as levels, the paper's values hollow. */
  function layerSeries(entries, noise) {
    const column = entries.filter((entry) => entry.noise === noise && (entry.heads ?? 1) === 1);
    const models = MODELS.flatMap((method) => {
      const found = column
        .filter((e) => e.method === method && e.layers !== null && e.layers <= tableParts.PAPER_LAYERS)
        .sort(byLayers);
      if (!found.length) return [];
      const at = (layers) => found.find((e) => e.layers === layers);
      const printed = found.filter((e) => e.printed !== null);
      const ours = {
        name: format.method(method),
        style: method,
        x: DEPTHS, // a depth that is missing is a gap in the line
        y: DEPTHS.map((layers) => at(layers)?.adjusted_loss ?? null),
        note: DEPTHS.map((layers) =>
          (at(layers)?.printed ?? null) === null ? "" : `paper: ${format.plain(at(layers).printed)}`,
        ),
      };
      const paper = {
        name: `${format.method(method)}, paper`,
        style: method,
        hollow: true,
        points: true,
        x: printed.map((e) => e.layers),
        y: printed.map((e) => e.printed),
      };
      return printed.length ? [ours, paper] : [ours];
    });
    const levels = RIDGES.flatMap((method) => {
      const entry = column.find((e) => e.method === method);
      return entry?.adjusted_loss > format.ROUNDING
        ? [{ name: format.method(method), style: method, level: entry.adjusted_loss }]
        : [];
    });
    return [...models, ...levels];
  }

  /** The Bayes limit of a prior as a floor. */
  function floorOf(entries, noise) {
    const limit = entries.find((e) => e.method === "bayes" && e.noise === noise)?.adjusted_loss;
    return limit > format.ROUNDING ? { name: "Bayes limit", value: limit } : undefined;
  }

  /** Figures 1 and 3: loss against layers. */
  function layerPanels(table, choose) {
    const { columns } = tableParts.arrange(table.entries);
    return columns.filter(choose).map((noise) => ({
      title: format.prior(noise),
      x: { label: "layers", whole: true, domain: [1, tableParts.PAPER_LAYERS] },
      y: { label: ADJUSTED, log: true },
      series: layerSeries(table.entries, noise),
      floor: floorOf(table.entries, noise),
    }));
  }

  const trainedOn = (noise) => format.support(noise).map(([from, to]) => ({ from, to }));

  /** Profiles over σ of the series of one panel that are chosen. */
  function profilePanel(panel, choose, { title, field = "adjusted" }) {
    const series = panel.series.filter(choose).map((one) => ({
      // At one level of σ it is no limit: it is the best over all levels that it was made for.
      name: one.method === "bayes" ? "Bayes predictor" : format.method(one.method),
      style: one.method,
      marker: "none",
      dash: { gdpp: "3 2", diag: "8 2" }[one.method],
      x: panel.levels,
      y: one[field].map((value) => value ?? Infinity),
      note:
        field === "adjusted"
          ? one.standard_error.map((error) => (error === null ? "" : `± ${format.loss(error)}`))
          : undefined,
    }));
    return {
      title,
      x: { label: "noise level σ", values: panel.levels },
      y: {
        label: field === "adjusted" ? ADJUSTED : "loss",
        log: field === "adjusted",
        within: field === "adjusted" ? [SMALLEST, LARGEST] : [0, LARGEST],
        zero: true,
      },
      series,
      shades: trainedOn(panel.noise),
    };
  }

  const deepest = (one) => one.layers === null || one.layers === tableParts.PAPER_LAYERS;

  /** Figures 2, 3 and 6: the deepest models of each prior. */
  function profilePanels(profiles, choose, field) {
    return profiles.panels
      .filter((panel) => choose(panel.noise))
      .map((panel) => profilePanel(panel, deepest, { title: format.prior(panel.noise), field }));
  }

  /** Figures 2, 3 and 6: all depths for one prior, a panel each, baselines in all of them. */
  function depthPanels(profiles, noise, field) {
    const panel = profiles.panels.find((one) => one.noise === noise);
    const depths = [...new Set((panel?.series ?? []).map((one) => one.layers).filter((layers) => layers > 1))].sort(
      (a, b) => a - b,
    );
    return depths.map((layers) =>
      profilePanel(panel, (one) => one.layers === null || one.layers === layers, { title: `${layers} layers`, field }),
    );
  }

  /** Mean and spread of several seeds, place by place; one seed has no spread. */
  function overSeeds(rows) {
    const count = rows.length;
    const mean = rows[0].map((_, k) => rows.reduce((sum, row) => sum + (row[k] ?? Infinity), 0) / count);
    if (count < 2) return { y: mean };
    const spread = mean.map((m, k) =>
      Math.sqrt(rows.reduce((sum, row) => sum + ((row[k] ?? Infinity) - m) ** 2, 0) / (count - 1)),
    );
    // A band that reached below zero would have no lower end on a log axis: it ends at the least seed instead.
    const low = mean.map((m, k) => Math.max(m - spread[k], Math.min(...rows.map((row) => row[k] ?? Infinity))));
    return { y: mean, low, high: mean.map((m, k) => m + spread[k]) };
  }

  /** The models of a kind by depth, all seeds of each. */
  function seedGroups(readouts, method) {
    const groups = new Map();
    for (const model of readouts.models.filter((one) => one.method === method).sort(byLayers)) {
      groups.set(model.layers, [...(groups.get(model.layers) ?? []), model]);
    }
    return groups;
  }

  const seedNote = (models) => (models.length > 1 ? `mean and spread of ${models.length} seeds` : "one seed");

  /** Figure 5: the prediction read out after each layer. */
  function readoutChart(readouts, method, floor) {
    const groups = seedGroups(readouts, method);
    const series = [...groups].map(([layers, models]) => ({
      name: `${layers} ${layers === 1 ? "layer" : "layers"}`,
      style: { step: layers, of: Math.max(...groups.keys()) },
      marker: "circle",
      x: models[0].adjusted.map((_, k) => k + 1),
      ...overSeeds(models.map((model) => model.adjusted)),
      note: seedNote(models),
    }));
    return {
      title: `${format.method(method)} on ${format.prior(readouts.noise)}, read out after each layer`,
      x: { label: "read out after layer", whole: true },
      y: { label: ADJUSTED, log: true, within: [SMALLEST, LARGEST] },
      series,
      floor,
    };
  }

  /** Figure 7: profiles over σ of the prediction after each layer, a panel for each depth. */
  function readoutProfiles(readouts, method) {
    return [...seedGroups(readouts, method)]
      .filter(([layers]) => layers > 1)
      .map(([layers, models]) => ({
        title: `${layers} layers`,
        x: { label: "noise level σ", values: readouts.levels },
        y: { label: ADJUSTED, log: true, within: [1e-3, LARGEST] },
        shades: trainedOn(readouts.noise),
        series: models[0].profile.map((_, k) => ({
          name: `after ${k + 1}`,
          style: { step: k + 1, of: 8 },
          x: readouts.levels,
          ...overSeeds(models.map((model) => model.profile[k])),
          note: seedNote(models),
        })),
      }));
  }

  /** Ours: how far from the Bayes limit, against depth, for every prior. */
  function bayesChart(table, method) {
    const { columns } = tableParts.arrange(table.entries);
    const noisy = columns.filter((noise) => floorOf(table.entries, noise));
    const series = noisy.flatMap((noise, k) => {
      const found = table.entries
        .filter((e) => e.method === method && e.noise === noise && e.bayes_ratio !== null && (e.heads ?? 1) === 1)
        .sort(byLayers);
      const look = isUniform(noise)
        ? { style: { step: k + 1, of: noisy.filter(isUniform).length }, marker: "circle" }
        : { style: "accent", marker: noise.split("+").length > 2 ? "diamond" : "square", dash: "5 3" };
      return found.length
        ? [{ name: format.prior(noise), ...look, x: found.map((e) => e.layers), y: found.map((e) => e.bayes_ratio) }]
        : [];
    });
    return {
      title: `${format.method(method)} against the Bayes limit`,
      x: { label: "layers", whole: true },
      y: { label: "loss over the Bayes limit", log: true, within: [0.5, 300], format: format.ratio },
      series,
      floor: { name: "Bayes limit", value: 1 },
    };
  }

  /** Ours: the loss while training, against time; the marker is the loss on fresh sequences at the end. */
  function trainingChart(curves, table) {
    const [{ noise }] = curves;
    const deepest = Math.max(...curves.map((curve) => curve.layers));
    const oneKind = curves.every((curve) => curve.method === curves[0].method);
    const series = curves.flatMap((curve) => {
      const name = `${format.method(curve.method)} ${curve.layers}`;
      const style = oneKind
        ? { step: curve.layers, of: deepest }
        : MODELS.includes(curve.method)
          ? curve.method
          : "accent";
      const from = curve.start === null ? "" : `, started from ${curve.start}`;
      const legs = curve.legs.map((leg) =>
        timed({ name, style, marker: "none", x: leg.seconds, y: leg.loss, note: leg.name + from }),
      );
      const end = {
        name,
        style,
        marker: "circle",
        points: true,
        x: [curve.final_seconds],
        y: [curve.final],
        note: "on fresh sequences, at the end",
      };
      return [...(curve.final_seconds === null ? [] : [end]), ...legs];
    });
    const paper = bestPrinted(table.entries, noise);
    return {
      title: `Training on ${format.prior(noise)}`,
      x: { label: "seconds of training" },
      y: { label: ADJUSTED, log: true, within: [SMALLEST, LARGEST] },
      series: [...series, ...(paper ? [{ name: "best of the paper", style: "muted", dash: "2 3", level: paper }] : [])],
      floor: floorOf(table.entries, noise),
    };
  }

  /** A series without the places that have no time. */
  function timed(series) {
    const keys = [...series.x.keys()].filter((k) => series.x[k] !== null);
    return { ...series, x: keys.map((k) => series.x[k]), y: keys.map((k) => series.y[k]) };
  }

  /** The lowest loss of any model that the paper printed for a prior. */
  function bestPrinted(entries, noise) {
    const printed = entries
      .filter((e) => e.noise === noise && e.layers !== null && e.printed !== null)
      .map((e) => e.printed);
    return printed.length ? Math.min(...printed) : undefined;
  }

  /** Ours: depth beyond the paper's, and several heads. */
  function depthChart(table, noise) {
    const column = table.entries.filter((e) => e.noise === noise && e.layers !== null);
    const kinds = [...new Set(column.map((e) => `${e.method}/${e.heads ?? 1}`))];
    const series = kinds.map((kind) => {
      const [method, heads] = kind.split("/");
      const found = column.filter((e) => e.method === method && String(e.heads ?? 1) === heads).sort(byLayers);
      const several = heads !== "1";
      return {
        name: format.method(method) + (several ? `, ${heads} heads` : ""),
        style: method,
        dash: several ? "5 3" : "",
        hollow: several,
        x: found.map((e) => e.layers),
        y: found.map((e) => e.adjusted_loss),
      };
    });
    const paper = bestPrinted(table.entries, noise);
    return {
      title: `Depth on ${format.prior(noise)}`,
      x: { label: "layers", whole: true },
      y: { label: ADJUSTED, log: true },
      series: [...series, ...(paper ? [{ name: "best of the paper", style: "muted", dash: "2 3", level: paper }] : [])],
      floor: floorOf(table.entries, noise),
    };
  }

  /** The priors for which there is something beyond the paper. */
  function beyondPriors(table) {
    const { columns } = tableParts.arrange(table.entries);
    return columns.filter((noise) =>
      table.entries.some((e) => e.noise === noise && e.layers !== null && tableParts.beyondPaper(e)),
    );
  }

  ridgeformer.figureData = {
    isUniform,
    MODELS,
    layerPanels,
    layerSeries,
    profilePanels,
    depthPanels,
    readoutChart,
    readoutProfiles,
    bayesChart,
    trainingChart,
    depthChart,
    beyondPriors,
    bestPrinted,
    floorOf,
  };
}

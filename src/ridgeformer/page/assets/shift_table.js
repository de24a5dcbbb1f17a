"use strict";
/* Sequences unlike those of training: a table of predictors by shift. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { dom, format } = ridgeformer;
  const { el } = dom;

  const SHIFTS = {
    none: () => "as trained",
    examples: (value) => `${value} examples`,
    noise: (value) => `noise × ${value}`,
    sigma: (value) => `σ = ${value}`,
    kappa: (value) => `features stretched, condition number ${value}`,
    student: (value) => `Student’s t noise, ${value} degrees of freedom`,
    outliers: (value) => `${format.plain(100 * Number(value.split("x")[0]))} % outliers, × ${value.split("x")[1]}`,
    scale: (value) => `weights × ${value}`,
    rows: (value) => `correlated rows, ρ = ${value}`,
  };

  /** A shift in words; one that is not known stays as it is written. */
  function shiftName(spec) {
    return spec
      .split("+")
      .map((part) => {
        const [name, value = ""] = part.split(":");
        return Object.hasOwn(SHIFTS, name) ? SHIFTS[name](value) : part;
      })
      .join(" and ");
  }

  function shiftCell(result) {
    if (!result) return el("td", { class: "empty" });
    const { ratio } = result;
    return el(
      "td",
      { class: result.survives ? null : "worse" },
      ratio === null ? "∞" : ratio < 1e4 ? format.ratio(ratio) : `${format.loss(ratio)}×`,
      el("span", { class: "mark", "aria-hidden": "true" }, result.survives ? "" : "▴"),
      el("span", { class: "visually-hidden" }, result.survives ? "" : ", does not survive"),
    );
  }

  /**
   * The shift table: predictors by shift, those that do not survive one shaded.
   * @param {{sequences: number, predictors: string[], scenarios: object[]}} shift
   * @returns {HTMLElement}
   */
  function shiftTable(shift) {
    return el(
      "div",
      { class: "scroll table-frame", tabindex: "0", role: "region", "aria-label": "Shift table" },
      el(
        "table",
        { class: "plain" },
        el(
          "caption",
          {},
          `Loss over that of ridge regression that is told the shift, on ${format.count(shift.sequences)} sequences. Shaded ▴: more than a quarter above AdaRR, or a mean made by a few sequences.`,
        ),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Shift"),
            shift.predictors.map((name) => el("th", { scope: "col" }, name)),
          ),
        ),
        el(
          "tbody",
          {},
          shift.scenarios.map(({ spec, results }) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, shiftName(spec)),
              shift.predictors.map((name) => shiftCell(Object.hasOwn(results, name) ? results[name] : null)),
            ),
          ),
        ),
      ),
    );
  }

  ridgeformer.shiftTable = shiftTable;
}

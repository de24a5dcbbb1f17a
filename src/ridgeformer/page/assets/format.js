"use strict";
/* Numbers and names as readers see them. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  const ROUNDING = 1e-20; // losses below it are rounding: those of baselines without noise

  /** A loss, at most four digits: the table's range from 1 to 1e-18. Null stands for infinity. */
  function loss(value) {
    if (value === null || value === undefined || value > 1e300) return "∞"; // JSON has no infinity
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < ROUNDING) return "≈ 0";
    if (size < 5e-4 || size >= 1e5) return value.toExponential(2).replace("-", "−").replace("e+", "e");
    return (size < 0.1 ? value.toFixed(4) : size < 100 ? value.toFixed(3) : value.toFixed(0)).replace("-", "−");
  }

  /** A number as short as it is: 0.047, 2.5e−12. */
  const plain = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

  /** An entry of a matrix: three digits and a sign. */
  const signed = (value) => (value > 0 ? "+" : "") + plain(Number(value.toPrecision(3)));

  /** A ratio, such as 1.05×. Beyond a million the other number is only rounding. */
  function ratio(value) {
    if (value === null || value === undefined || value > 1e6) return "–";
    if (value >= 1e4) return `${value.toExponential(1).replace("e+", "e")}×`;
    return `${value < 10 ? value.toFixed(2) : value.toPrecision(3)}×`;
  }

  /** A whole number with thin spaces between thousands. */
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

  /** 10 to a whole power: 10⁻⁶; 0.001 to 1000 are plainer as they are. */
  function power(exponent) {
    if (Math.abs(exponent) <= 3) return String(Number(`1e${exponent}`));
    const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[Number(digit)]).join("");
    return `10${exponent < 0 ? "⁻" : ""}${digits}`;
  }

  /** A noise prior: U(0, 5), {1, 3}. */
  function prior(spec) {
    const [kind, levels = ""] = String(spec).split(":");
    if (kind === "uniform" && !levels.includes("-")) return levels === "0" ? "σ = 0" : `U(0, ${levels})`;
    if (kind === "uniform") return `U(${levels.replace("-", ", ")})`;
    if (kind === "categorical") return `{${levels.replaceAll("+", ", ")}}`;
    if (kind === "fixed") return `σ = ${levels}`;
    return String(spec);
  }

  /** The name of a method; names that are not known stay as they are. */
  const method = (name) => ridgeformer.methods?.[name]?.label ?? String(name);

  /** The name of a row or model: FULL 7, FULL 7, 2 heads, or DIAG 4, 2 registers. */
  function row({ method: name, layers, heads, registers }) {
    const depth = layers === null || layers === undefined ? "" : ` ${layers}`;
    const wide = registers > 0 ? `, ${registers} register${registers > 1 ? "s" : ""}` : "";
    return method(name) + depth + (heads > 1 ? `, ${heads} heads` : "") + wide;
  }

  ridgeformer.format = { loss, plain, signed, ratio, count, power, prior, method, row };
}

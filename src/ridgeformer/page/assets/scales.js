"use strict";
/* Axes: from numbers to places and back, and where the ticks go. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const { format } = ridgeformer;

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
    if (decades > 2.2) {
      const stride = Math.max(1, Math.ceil(decades / count));
      const ticks = [];
      for (let k = Math.ceil(first / stride - 1e-9) * stride; k <= last + 1e-9; k += stride) {
        ticks.push({ value: 10 ** k, text: format.power(k) });
      }
      return ticks;
    }
    const factors = decades > 1.1 ? [1, 3] : decades > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8];
    const ticks = [];
    for (let k = Math.floor(first); k <= last; k += 1) {
      for (const factor of factors) {
        const value = Number(`${factor}e${k}`);
        if (value >= low * 0.999 && value <= high * 1.001) ticks.push({ value, text: format.plain(value) });
      }
    }
    return ticks;
  }

  /**
   * A scale from a domain of numbers to a range of pixels.
   * @param {[number, number]} domain
   * @param {[number, number]} range
   * @param {{log?: boolean, count?: number, whole?: boolean}} options
   */
  function scale(domain, range, { log = false, count = 5, whole = false } = {}) {
    const warp = log ? Math.log : (value) => value;
    const [from, to] = domain.map(warp);
    const size = to - from || 1;
    const place = (value) =>
      Math.max(-FAR, Math.min(FAR, range[0] + ((warp(value) - from) / size) * (range[1] - range[0])));
    const ticks = log ? logTicks(domain, count) : linearTicks(domain, count, whole);
    return { place, ticks, domain };
  }

  /**
   * The domain of some numbers: with a little air, of positive ones alone on a log scale, cut to `within`.
   * @param {number[]} values
   * @param {{log?: boolean, within?: [number, number], zero?: boolean}} options
   * @returns {[number, number]}
   */
  function domainOf(values, { log = false, within = [-Infinity, Infinity], zero = false } = {}) {
    const there = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
    const inside = there.filter((value) => value >= within[0] && value <= within[1]);
    const used = inside.length ? inside : [log ? 0.1 : 0, 1];
    let [low, high] = [Math.min(...used), Math.max(...used)];
    if (there.some((value) => value > within[1])) high = Math.max(high, within[1]);
    if (there.some((value) => value < within[0])) low = Math.min(low, within[0]);
    if (log) {
      const air = Math.max((high / low) ** 0.06, 1.08);
      return [low / air, high * air];
    }
    if (zero) low = Math.min(0, low);
    const air = (high - low || 1) * 0.05;
    return [low === 0 ? 0 : low - air, high + air];
  }

  ridgeformer.scales = { scale, domainOf };
}

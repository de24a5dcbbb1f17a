"use strict";
/* The state of the page lives in the address, behind the #, so that a link shares it. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  // Browsers refuse more than some hundred changes of the address in half a minute; a slider makes sixty a second.
  const DELAY = 200;
  let pending = {};
  let timer = 0;
  const listeners = new Set();

  function fromAddress() {
    return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  }

  function merged() {
    const state = { ...fromAddress(), ...pending };
    return Object.fromEntries(Object.entries(state).filter(([, value]) => value !== null));
  }

  /** Put what is pending into the address now. */
  function flush() {
    clearTimeout(timer);
    timer = 0;
    const text = new URLSearchParams(merged()).toString();
    pending = {};
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  /**
   * The state as a plain object of strings, what is about to be written included.
   * @returns {Object<string, string>}
   */
  function read() {
    return merged();
  }

  /**
   * Merge values into the address, shortly; null removes a key. Subscribers are not told: who writes, knows.
   * @param {Object<string, (string|number|null)>} values
   */
  function write(values) {
    for (const [key, value] of Object.entries(values)) {
      pending[key] = value === null || value === undefined ? null : String(value);
    }
    if (!timer) timer = setTimeout(flush, DELAY);
  }

  /**
   * Be told when the user changes the address: a link within the page, back, forward, editing it.
   * @param {(state: Object<string, string>) => void} listener
   * @returns {() => void} call it to be told no more
   */
  function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  globalThis.addEventListener?.("hashchange", () => {
    clearTimeout(timer);
    timer = 0;
    pending = {};
    const state = read();
    for (const listener of listeners) listener(state);
  });
  globalThis.addEventListener?.("pagehide", () => timer && flush());

  ridgeformer.state = { read, write, subscribe, flush };
}

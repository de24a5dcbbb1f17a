"use strict";
// Switches for the four parts of every layer: ω of diag and gdpp models, blocks of the update of full ones.
globalThis.ridgeformer ??= {};
ridgeformer.explorer ??= {};

ridgeformer.explorer.switches = (() => {
  const { el, fill } = ridgeformer.dom;
  /** What the paper says each is for. */
  const ROLES = {
    xx: "preconditions",
    xy: "adapts the step to the noise",
    yx: "takes a gradient step",
    yy: "rescales the answer",
  };
  const HOW = "Press a number to switch it off, or the head of a column to switch it off in all layers.";
  const EXPLANATION = {
    gdpp: `A layer is two numbers: ω_xx ${ROLES.xx}, ω_yx ${ROLES.yx}. ${HOW}`,
    diag: `A layer is four numbers: ω_xx ${ROLES.xx}, ω_xy ${ROLES.xy}, ω_yx ${ROLES.yx}, ω_yy ${ROLES.yy}. ${HOW}`,
    full:
      "A FULL layer has two matrices instead of four ω. What it adds to a token has four blocks, one in the place of " +
      "each ω of DIAG. A switch sets a block to zero; its number is the size of the block for this sequence.",
  };
  const INERT = "Nothing reads what this writes, so it cannot change the prediction.";

  /** Text in which every ω_xy has its index written low. */
  const withSymbols = (text) => text.split(/ω_(\w\w)/).map((part, place) => (place % 2 ? omega(part) : part));
  const omega = (block) => [el("i", {}, "ω"), el("sub", {}, block)];

  /** What heads a column: a full model has no ω, only blocks. */
  const symbol = (model, block) => (model.omega ? omega(block) : block);
  const spoken = (model, block) => (model.omega ? `ω${block}` : `Block ${block}`);

  /** Two digits, which is what a switch has room for. */
  function short(value) {
    const plain = value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4);
    const text = plain ? String(Number(value.toPrecision(2))) : value.toExponential(0);
    return text.replace(/^(-?)0\./, "$1.").replaceAll("-", "−").replace("e+", "e");
  }

  /**
   * @param {(off: Set<string>) => void} onOff
   * @returns {{element: HTMLElement, update: (settings: object, model: object, result: object) => void}}
   */
  return function switches(onOff) {
    const explanation = el("p", { class: "explorer-note" });
    const table = el("table", { class: "explorer-omega" });
    const allOn = { type: "button", id: "explorer-all-on", class: "explorer-button" };
    const reset = el("button", { ...allOn, on: { click: () => onOff(new Set()) } }, "Switch all on");
    let shownModel = null;
    let off = new Set();
    let cells = [];
    let columns = [];

    /** The set with these keys all off, or all on if they were all off. */
    function toggled(keys) {
      const next = new Set(off);
      const allOff = keys.every((key) => next.has(key));
      for (const key of keys) allOff ? next.delete(key) : next.add(key);
      return next;
    }

    /** A button that turns these keys off, or on again. */
    function button(name, keys, ...content) {
      const press = () => onOff(toggled(keys));
      const attributes = { type: "button", id: `explorer-omega-${name}`, class: "explorer-switch" };
      return el("button", { ...attributes, on: { click: press } }, content);
    }

    /** The cell of one block of one layer; what its switch shows is set by update. */
    function cell(layer, block, inert) {
      const key = `${layer}${block}`;
      if (inert.has(key)) {
        const attributes = { class: "explorer-inert", role: "img", title: INERT, "aria-label": INERT };
        return el("td", {}, el("span", attributes, "–"));
      }
      cells.push({ key, layer, block, node: button(key, [key]) });
      return el("td", {}, cells.at(-1).node);
    }

    /** The grid of a model. */
    function build(model) {
      const blocks = ridgeformer.explorer.settings.blocksOf(model);
      const inert = ridgeformer.model.inertBlocks(model.layers);
      const layers = Array.from({ length: model.layers }, (_, index) => index + 1);
      cells = [];
      columns = blocks.map((block) => {
        const keys = layers.map((layer) => `${layer}${block}`);
        const node = button(block, keys, symbol(model, block));
        node.setAttribute("aria-label", `${spoken(model, block)} of all layers, ${ROLES[block]}`);
        return { keys, node };
      });
      const heads = columns.map(({ node }) => el("th", { scope: "col" }, node));
      const rows = layers.map((layer) =>
        el("tr", {}, el("th", { scope: "row" }, layer), blocks.map((block) => cell(layer, block, inert))),
      );
      fill(
        table,
        el("caption", { class: "visually-hidden" }, "Switches for the parts of every layer"),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Layer"), heads)),
        el("tbody", {}, rows),
      );
      fill(explanation, withSymbols(EXPLANATION[model.kind]));
    }

    return {
      element: el(
        "section",
        { class: "explorer-switches", "aria-label": "Parts of the layers" },
        el("h3", {}, "Take it apart"),
        explanation,
        table,
        reset,
      ),
      update(settings, model, result) {
        if (shownModel !== model.name) build(model);
        shownModel = model.name;
        off = settings.off;
        for (const { key, layer, block, node } of cells) {
          const place = ridgeformer.model.BLOCKS.indexOf(block);
          const value = model.omega ? model.omega[layer - 1][place] : result.layers[layer - 1].blockSizes[place];
          const on = !off.has(key);
          const text = on || model.omega ? short(value) : "off";
          if (node.textContent !== text) fill(node, text);
          node.setAttribute("aria-pressed", String(on));
          const state = on ? "" : ", switched off";
          node.setAttribute("aria-label", `${spoken(model, block)} of layer ${layer}: ${text}${state}`);
        }
        for (const { keys, node } of columns) {
          node.setAttribute("aria-pressed", String(!keys.every((key) => off.has(key))));
        }
        reset.disabled = off.size === 0;
      },
    };
  };
})();

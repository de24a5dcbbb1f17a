"use strict";
/* Building the page. Text only ever becomes text: nothing here parses markup, so that no name or number from a file can. */
{
  const ridgeformer = (globalThis.ridgeformer ??= {});
  const SVG = "http://www.w3.org/2000/svg";

  /** Set one attribute; `on` holds listeners, `style` CSS properties, `data` data-attributes. */
  function setAttribute(node, name, value) {
    if (value === null || value === undefined || value === false) return;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    } else if (name === "data") {
      Object.assign(node.dataset, value);
    } else if (/^on/i.test(name)) {
      throw new Error(`Listeners go into "on", not into ${name}.`);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }

  /** Append nodes, and text as text; lists are flattened, null is left out. */
  function append(node, ...children) {
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : String(child));
    }
    return node;
  }

  function build(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) setAttribute(node, name, value);
    return append(node, ...children);
  }

  /**
   * An HTML element.
   * @param {string} tag
   * @param {object} [attributes] attributes; `on: {click: f}`, `style: {"--x": "1"}`, `data: {key: text}`
   * @param {...(Node|string|number|null|Array)} children
   * @returns {HTMLElement}
   */
  const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

  /** An SVG element; see `el`. */
  const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

  /** Replace what is in a node. */
  function fill(node, ...children) {
    node.replaceChildren();
    return append(node, ...children);
  }

  let region = null;
  let timer = 0;
  /** Tell screen readers, politely, once things have stopped changing for a moment. */
  function announce(text) {
    region ??= document.body.appendChild(
      el("div", { class: "visually-hidden", "aria-live": "polite", id: "announcer" }),
    );
    clearTimeout(timer);
    timer = setTimeout(() => fill(region, text), 250);
  }

  /**
   * One choice out of a few, as a group of radio buttons that look like one control.
   * @param {{label: string, name: string, options: {value: string, text: string}[], value: string, onChange: (value: string) => void}} spec
   */
  function choice({ label, name, options, value, onChange }) {
    return el(
      "fieldset",
      { class: "choice" },
      el("legend", {}, label),
      el(
        "div",
        { class: "choice-options" },
        options.map((option) =>
          el(
            "label",
            {},
            el("input", {
              type: "radio",
              name,
              value: option.value,
              checked: option.value === value,
              on: { change: () => onChange(option.value) },
            }),
            el("span", {}, option.text),
          ),
        ),
      ),
    );
  }

  /** A labelled drop-down list. */
  function select({ label, id, options, value, onChange }) {
    const list = el(
      "select",
      { id, on: { change: () => onChange(list.value) } },
      options.map((option) => el("option", { value: option.value, selected: option.value === value }, option.text)),
    );
    return el("div", { class: "field" }, el("label", { for: id }, label), list);
  }

  /**
   * A table of texts.
   * @param {{caption: string, head: string[], rows: Array[]}} spec every row begins with its header; a cell is what
   *   stands in it, or the `td` itself
   */
  function table({ caption, head, rows }) {
    const cell = (content) => (content instanceof HTMLTableCellElement ? content : el("td", {}, content));
    const heads = head.map((text) => el("th", { scope: "col" }, text));
    const line = ([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), rest.map(cell));
    const parts = [el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows.map(line))];
    return el("table", { class: "plain" }, parts);
  }

  ridgeformer.dom = { el, svg, append, fill, announce, choice, select, table };
}

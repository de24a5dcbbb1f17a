"use strict";
/* Starting the page: data into sections, and links between them that keep the rest of the address. */
{
  const { dom, state, summary } = ridgeformer;
  const SECTIONS = [
    ["problem", "The result"],
    ["explorer", "Explorer"],
    ["table1", "Table 1"],
    ["figures", "Figures"],
    ["claims", "Claims"],
    ["made", "How it was made"],
  ];
  const names = SECTIONS.map(([name]) => name);
  const data = JSON.parse(document.getElementById("data").textContent);
  const { table1, claims, commands, models } = data;
  ridgeformer.methods = data.methods;
  const body = (name) => document.getElementById(`${name}-body`);

  /** Go to a section, so that the next Tab is in it; at once if the page has only just opened. */
  function go(name, behavior = "auto") {
    if (!names.includes(name)) return;
    document.getElementById(name).scrollIntoView({ behavior });
    document.getElementById(`${name}-heading`).focus({ preventScroll: true });
  }

  const keyOf = (kind, { layers, heads, registers, noise }) =>
    JSON.stringify([kind, layers, heads ?? 1, registers ?? 0, noise]);
  const byCell = new Map(models.map((model) => [keyOf(model.kind, model), model.name]));
  const modelOf = (entry) => byCell.get(keyOf(entry.method, entry)) ?? null;

  dom.append(
    document.getElementById("sections"),
    SECTIONS.map(([name, text]) => dom.el("a", { href: `#section=${name}` }, text)),
  );
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#section="]');
    if (!link) return;
    event.preventDefault();
    const name = new URLSearchParams(link.hash.slice(1)).get("section");
    state.write({ section: name });
    go(name);
  });

  dom.append(document.getElementById("problem"), summary.problem(data));
  dom.append(
    body("table1"),
    ridgeformer.table1(table1, modelOf, (name) => ridgeformer.explorer.open(name)),
    summary.definitions(summary.inTable(table1)),
  );
  dom.append(body("figures"), ridgeformer.figures(data.figures, commands));
  dom.append(body("claims"), claims ? summary.claims(claims) : ridgeformer.missing("claims", commands));
  dom.append(body("made"), summary.made(data));
  ridgeformer.startExplorer(body("explorer"), models);
  for (const name of names) {
    const section = document.getElementById(name);
    const place = name === "problem" ? section.querySelector(".hero") : section.querySelector(".intro") ?? section.querySelector("h2");
    place.after(ridgeformer.terms(section));
  }
  state.subscribe((now) => go(now.section));
  go(state.read().section, "instant");
}

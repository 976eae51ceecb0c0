// The model: how it was made, how the fit went, how good it is, relation by relation.

import { objective, reliability } from "./chart.js";
import { h, load } from "./dom.js";
import { get, wait } from "./server.js";
import { bytes, count, figure, short } from "./words.js";

export default function page(values, { signal, model }) {
  const body = h("div", { class: "stack" }), title = h("h1", {}, "Model");
  load(body, Promise.all([model, get("relations", {}, signal)]), ([found, { relations }]) => {
    title.textContent = found.name;
    const measured = h("div", { class: "grid" }), table = h("div", { class: "scroll" });
    const busy = h("p", { class: "busy" }, "Measuring…");
    if (found.test || found.known) {
      const tell = ({ done, total, note }) => { busy.textContent = `Measuring: ${note}${total ? ` ${Math.floor((100 * done) / total)} %` : ""}…`; };
      load(measured, wait("quality", {}, signal, tell), (answer) => {
        table.replaceChildren(perRelation(relations, answer.quality.relations));
        return figures(answer);
      });
      measured.replaceChildren(busy);
    } else {
      measured.append(h("p", { class: "note" }, "Start the server with --test DATA to see how good the model is."));
    }
    table.append(perRelation(relations, []));
    return [
      h("div", { class: "grid" }, made(found), fit(found)),
      h("h2", {}, "How good it is"), measured,
      h("h2", {}, "Relations"), table,
    ];
  });
  return { title: "Model", content: [h("header", { class: "head" }, title), body] };
}

function made(found) {
  const { sizes, known, test } = found;
  const settings = Object.entries(found.settings).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`).join(", ");
  const pairs = [
    ["Model", found.kind],
    ["Entities", sizes.entities.toLocaleString("en")],
    ["Relations", sizes.relations.toLocaleString("en")],
    ["Rank", sizes.rank],
    ["Parameters", `${sizes.parameters.toLocaleString("en")} (${sizes.dtype})`],
    ["File", sizes.bytes ? bytes(sizes.bytes) : null],
    ["Learned from", found.learned_from === null ? null : count(found.learned_from, "fact")],
    ["Known here", known && `${known.name}: ${count(known.facts, "fact")}`],
    ["Test facts", test && `${test.name}: ${count(test.facts, "fact")}`],
    ["Probabilities", found.calibrated ? `calibrated (${found.link})` : `${found.link} link, not calibrated`],
    ["A pair has", found.exclusive ? "one relation at most" : "any number of relations"],
    ["Settings", settings || null],
  ];
  return h("section", { class: "card" }, h("h2", {}, "Made of"),
    h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function fit({ fit: { steps, seconds, verdict, objectives } }) {
  return h("section", { class: "card" }, h("h2", {}, "The fit"),
    objectives.length > 1 ? h("figure", {}, objective(objectives), h("figcaption", { class: "note" }, "Objective at each step")) : h("p", { class: "note" }, "The file does not tell how the fit went."),
    verdict && h("p", { class: "note" }, verdict, steps && seconds !== null ? `; ${count(steps, "step")} in ${short(seconds)} s` : ""));
}

function figures({ data, name, quality }) {
  const { overall } = quality;
  const pairs = [
    ["MRR", overall.mrr], ["Hits@10", overall.hits_10], ["Average precision", overall.average_precision],
    ["AUC-PR", overall.auc_pr], ["Calibration error", quality.calibration_error],
  ];
  const on = data === "test" ? `test facts (${name})` : `known facts (${name})`;
  return [
    h("section", { class: "card" }, h("h2", {}, data === "test" ? "On test facts" : "On known facts"),
      h("dl", { class: "facts" }, pairs.flatMap(([what, value]) => [h("dt", {}, what), h("dd", {}, figure(value))])),
      h("p", { class: "note" }, `Ranks of ${count(quality.n_ranked, "fact")} among all entities, filtered; precision and reliability on ${count(quality.n_cells, "cell")}; ${on}.`,
        data === "known" ? " The model was learned from these: this tells how well it remembers, not how well it predicts. Start with --test DATA for that." : "")),
    h("section", { class: "card" }, h("h2", {}, "Do its probabilities hold?"),
      quality.reliability.length
        ? h("figure", {}, reliability(quality.reliability), h("figcaption", { class: "note" }, "Share of true cells against predicted probability, cells above 5 %; on the dashed line they agree."))
        : h("p", { class: "note" }, "No cell is likelier than 5 %.")),
  ];
}

function perRelation(relations, measured) {
  const by = new Map(measured.map((one) => [one.relation, one.figures]));
  const cell = (value) => h("td", { class: "number" }, value);
  return h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Relation"),
      ["Known", "Measured", "MRR", "Hits@10", "Avg. precision", "AUC-PR"].map((name) => h("th", { class: "number", scope: "col" }, name)))),
    h("tbody", {}, relations.map(({ name, facts }) => {
      const own = by.get(name);
      return h("tr", {}, h("th", { scope: "row" }, h("a", { href: "/ask?" + new URLSearchParams({ relation: name }) }, name)),
        cell(facts.toLocaleString("en")), cell(own ? own.n_facts.toLocaleString("en") : "–"),
        [own?.mrr, own?.hits_10, own?.average_precision, own?.auc_pr].map((value) => cell(figure(value))));
    })));
}

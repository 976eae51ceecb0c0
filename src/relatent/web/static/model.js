// The model: a summary, the fit, and the quality overall and per relation.

import { objectiveChart, reliabilityChart } from "./chart.js";
import { h, load } from "./dom.js";
import { get, wait } from "./api.js";
import { askHref, bytes, count, metric, sentence, short } from "./format.js";

export default function page(parameters, { signal, model }) {
  const body = h("div", { class: "stack" }), title = h("h1", {}, "Model");
  load(body, Promise.all([model, get("relations", {}, signal)]), ([info, { relations }]) => {
    title.textContent = info.name;
    const quality = h("div", { class: "grid" }), table = h("div", { class: "scroll" });
    if (info.test || info.known) {
      const loading = h("p", { class: "loading" }, "Measuring…");
      const report = ({ done, total, note }) => { loading.textContent = `Measuring: ${note}${total ? ` ${Math.floor((100 * done) / total)} %` : ""}…`; };
      load(quality, wait("quality", {}, signal, report), (result) => {
        table.replaceChildren(relationTable(relations, result.quality.relations));
        return qualityCards(result);
      });
      quality.replaceChildren(loading);
    } else {
      quality.append(h("p", { class: "note" }, "To see the quality of the model, start the server with --test DATA."));
    }
    table.append(relationTable(relations, []));
    return [
      h("div", { class: "grid" }, summaryCard(info), fitCard(info)),
      h("h2", {}, "Quality"), quality,
      h("h2", {}, "Relations"), table,
    ];
  });
  return { title: "Model", content: [h("header", { class: "head" }, title), body] };
}

function definitions(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h("dl", { class: "facts" }, given.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function settingText(value) {
  if (value === null || typeof value !== "object") return String(value);
  const { type, ...fields } = value;
  return `${type}(${Object.entries(fields).map(([name, field]) => `${name}=${settingText(field)}`).join(", ")})`;
}

function summaryCard({ kind, sizes, settings, known, test, learned_from, probabilities, exclusive }) {
  const given = Object.entries(settings).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${settingText(value)}`).join(", ");
  return h("section", { class: "card" }, h("h2", {}, "Summary"), definitions([
    ["Model", kind],
    ["Entities", sizes.entities.toLocaleString("en")],
    ["Relations", sizes.relations.toLocaleString("en")],
    ["Rank", sizes.rank],
    ["Parameters", `${sizes.parameters.toLocaleString("en")} (${sizes.dtype})`],
    ["File size", sizes.bytes ? bytes(sizes.bytes) : null],
    ["Fitted to", learned_from === null ? null : count(learned_from, "fact")],
    ["Known facts", known && `${known.name}: ${count(known.facts, "fact")}`],
    ["Test facts", test && `${test.name}: ${count(test.facts, "fact")}`],
    ["Probabilities", sentence(probabilities)],
    ["Relations per pair", exclusive ? "at most one" : "any number"],
    ["Settings", given || null],
  ]));
}

function fitCard({ fit: { steps, seconds, verdict, objectives } }) {
  return h("section", { class: "card" }, h("h2", {}, "Fit"),
    objectives.length > 1 ? h("figure", {}, objectiveChart(objectives), h("figcaption", { class: "note" }, "Objective per step")) : h("p", { class: "note" }, "The model file has no record of the fit."),
    verdict && h("p", { class: "note" }, verdict, steps && seconds !== null ? `; ${count(steps, "step")} in ${short(seconds)} s` : ""));
}

function qualityCards({ data, name, quality: { overall, calibration_error, n_ranked, n_cells, reliability } }) {
  const fittedTo = " The model was fitted to these facts: the figures show how well it reproduces them, not how well it predicts. To measure prediction, start the server with --test DATA.";
  return [
    h("section", { class: "card" }, h("h2", {}, data === "test" ? `On test facts (${name})` : `On known facts (${name})`),
      definitions([
        ["MRR", metric(overall.mrr)], ["Hits@10", metric(overall.hits_10)], ["Average precision", metric(overall.average_precision)],
        ["AUC-PR", metric(overall.auc_pr)], ["Calibration error", metric(calibration_error)],
      ]),
      h("p", { class: "note" }, `MRR and Hits@10: filtered ranks of ${count(n_ranked, "fact")}. Other figures: ${count(n_cells, "cell")}.`, data === "known" && fittedTo)),
    h("section", { class: "card" }, h("h2", {}, "Reliability of the probabilities"),
      reliability.length
        ? h("figure", {}, reliabilityChart(reliability), h("figcaption", { class: "note" }, "Share of true cells by predicted probability, for cells above 5 %. Calibrated probabilities lie on the dashed line."))
        : h("p", { class: "note" }, "No cell has a probability above 5 %.")),
  ];
}

function relationTable(relations, measured) {
  const figuresOf = new Map(measured.map(({ relation, figures }) => [relation, figures]));
  const cell = (value) => h("td", { class: "number" }, value);
  return h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Relation"),
      ["Known facts", "Measured", "MRR", "Hits@10", "Avg. precision", "AUC-PR"].map((name) => h("th", { class: "number", scope: "col" }, name)))),
    h("tbody", {}, relations.map(({ name, facts }) => {
      const figures = figuresOf.get(name);
      return h("tr", {}, h("th", { scope: "row" }, h("a", { href: askHref({ relation: name }) }, name)),
        cell(facts.toLocaleString("en")), cell(figures ? figures.n_facts.toLocaleString("en") : "–"),
        [figures?.mrr, figures?.hits_10, figures?.average_precision, figures?.auc_pr].map((value) => cell(metric(value))));
    })));
}

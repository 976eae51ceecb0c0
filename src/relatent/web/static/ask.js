// A question: two of subject, relation and object are given. If all three are given: the probability of that fact.

import { among, combobox } from "./combobox.js";
import { h, load } from "./dom.js";
import { answerRow, chance, explanation } from "./facts.js";
import { get } from "./api.js";
import { label, relationLabel } from "./labels.js";
import { NO_EXPLANATIONS, askHref, count, entityHref, sentence } from "./format.js";

const PLACES = ["subject", "relation", "object"];

export default function ask(parameters, { signal, model, go }) {
  const given = Object.fromEntries(PLACES.map((place) => [place, parameters[place] ?? ""]));
  const known = parameters.known ?? "mark", top = parameters.top ?? "10";
  const answers = h("div", { class: "stack", "aria-live": "polite" });
  const fields = {};
  const form = h("form", { class: "card", onsubmit: submit }, h("div", { class: "asking" }));
  for (const place of PLACES) {
    fields[place] = combobox({
      kind: place === "relation" ? "relation" : "entity", value: given[place], placeholder: "leave empty to ask for it",
      pick: (name) => { fields[place].value = name; if (emptyPlaces().length <= 1) submit(); },
      local: place === "relation" ? (text) => among(relations)(text) : undefined,
    });
    form.firstChild.append(h("label", {}, place[0].toUpperCase() + place.slice(1), fields[place].box));
  }
  let relations = [];
  get("relations", {}, signal).then((list) => { relations = list.relations; }, () => {});
  const knownSelect = select("Known answers", known, { mark: "mark known answers", omit: "leave out known answers" });
  const topSelect = select("Number of answers", top, { 10: "10 answers", 25: "25 answers", 100: "100 answers" });
  form.firstChild.append(h("button", { class: "main", type: "submit" }, "Ask"));
  form.append(h("div", { class: "under" }, knownSelect, topSelect));

  function select(title, value, choices) {
    return h("select", { "aria-label": title, onchange: () => PLACES.some((place) => given[place]) && submit() },
      Object.entries(choices).map(([key, text]) => h("option", { value: key, selected: key === String(value) }, text)));
  }

  function emptyPlaces() {
    return PLACES.filter((place) => !fields[place].value);
  }

  function submit(event) {
    event?.preventDefault();
    const question = Object.fromEntries(PLACES.map((place) => [place, fields[place].value]).filter(([, name]) => name));
    if (knownSelect.value !== "mark") question.known = knownSelect.value;
    if (topSelect.value !== "10") question.top = topSelect.value;
    go(askHref(question));
  }

  const filled = PLACES.filter((place) => given[place]);
  if (filled.length === 3) showFact();
  else if (filled.length === 2) showAnswers();
  else {
    answers.append(h("p", { class: "note" }, filled.length
      ? "Fill in one more field and leave one empty."
      : "Fill in two fields to ask for the third. Fill in all three to see the probability of one fact."));
  }

  function showFact() {
    load(answers, Promise.all([get("fact", given, signal), model]), ([fact, { can_explain, can_fold_in, probabilities }]) => {
      const why = h("div", { class: "stack" });
      if (can_explain) load(why, get("explain", given, signal), explanation);
      else why.append(h("p", { class: "note" }, can_fold_in ? "To see explanations, start the server with --known DATA." : NO_EXPLANATIONS));
      return h("section", { class: "card stack" },
        h("h2", { class: "statement" }, label(fact.subject), " ", h("b", {}, relationLabel(fact.relation)), " ", label(fact.object)),
        h("ul", { class: "rows" }, h("li", { class: fact.known ? "known" : "" },
          h("span", { class: "name" }, fact.known ? "Known fact" : `Rank ${fact.rank.toLocaleString("en")} of the objects that are not known`),
          ...(fact.known ? [] : chance(fact)))),
        h("p", { class: "note" }, sentence(probabilities)),
        why);
    });
  }

  function showAnswers() {
    load(answers, Promise.all([get("ask", { ...given, top, known }, signal), model]), ([result, { can_explain, probabilities }]) => {
      const words = PLACES.map((place) => (place === result.open ? h("span", { class: "blank" }, "?")
        : place === "relation" ? h("b", {}, relationLabel(given[place])) : h("a", { href: entityHref(given[place]) }, label(given[place]))));
      const note = result.n_known ? count(result.n_known, "known answer") + (known === "omit" ? " left out" : "") : "";
      return h("section", { class: "card" },
        h("h2", { class: "statement" }, words.flatMap((word) => [word, " "])),
        note && h("p", { class: "note" }, note),
        result.answers.length
          ? h("ol", { class: "rows" }, result.answers.map((answer) => answerRow(answer, {
            href: result.open === "relation" ? askHref({ ...given, relation: answer.name }) : entityHref(answer.name),
            explain: can_explain ? { ...given, [result.open]: answer.name } : null,
          })))
          : h("p", { class: "note" }, "No other answers."),
        h("p", { class: "note" }, sentence(probabilities)));
    });
  }

  const title = filled.length >= 2 ? PLACES.map((place) => given[place] || "?").join(" ") : "Ask";
  const about = "Give two of subject, relation and object; the model ranks the answers for the third.";
  return { title, content: [h("header", { class: "head" }, h("h1", {}, "Ask"), h("p", { class: "muted" }, about)), h("div", { class: "stack" }, form, answers)] };
}

// A question with one open place; with all three given, how likely that fact is, and why.

import { among, combobox } from "./combobox.js";
import { h, load } from "./dom.js";
import { meter, reasons, row } from "./facts.js";
import { get } from "./server.js";
import { askHref, count, entityHref, percent } from "./words.js";

const PLACES = ["subject", "relation", "object"];

export default function ask(values, { signal, model, go }) {
  const given = Object.fromEntries(PLACES.map((place) => [place, values[place] ?? ""]));
  const known = values.known ?? "mark", k = values.k ?? "10";
  const answers = h("div", { class: "stack", "aria-live": "polite" });
  const fields = {};
  const form = h("form", { class: "card", onsubmit: submit }, h("div", { class: "asking" }));
  for (const place of PLACES) {
    fields[place] = combobox({
      kind: place === "relation" ? "relation" : "entity", value: given[place], placeholder: "leave open: ?",
      pick: (name) => { fields[place].value = name; if (open().length <= 1) submit(); },
      local: place === "relation" ? (text) => among(relations)(text) : undefined,
    });
    form.firstChild.append(h("label", {}, place[0].toUpperCase() + place.slice(1), fields[place].box));
  }
  let relations = [];
  get("relations", {}, signal).then((found) => { relations = found.relations; }, () => {});
  const treat = select("known", known, { mark: "known ones marked", omit: "known ones left out" });
  const many = select("k", k, { 10: "10 answers", 25: "25 answers", 100: "100 answers" });
  form.firstChild.append(h("button", { class: "main", type: "submit" }, "Ask"));
  form.append(h("div", { class: "under" }, treat, many));

  function select(name, value, choices) {
    const made = h("select", { name, "aria-label": name === "k" ? "How many answers" : "Known answers", onchange: () => PLACES.some((one) => given[one]) && submit() },
      Object.entries(choices).map(([key, text]) => h("option", { value: key, selected: key === String(value) }, text)));
    return made;
  }

  function open() {
    return PLACES.filter((place) => !fields[place].value);
  }

  function submit(event) {
    event?.preventDefault();
    const asked = Object.fromEntries(PLACES.map((place) => [place, fields[place].value]).filter(([, name]) => name));
    if (treat.value !== "mark") asked.known = treat.value;
    if (many.value !== "10") asked.k = many.value;
    go(askHref(asked));
  }

  const filled = PLACES.filter((place) => given[place]);
  if (filled.length === 3) one();
  else if (filled.length === 2) several();
  else {
    answers.append(h("p", { class: "note" }, filled.length
      ? "Give one place more, and leave one open: that is the question."
      : "Fill in two places and leave the third open. Fill in all three to see how likely one fact is."));
  }

  function one() {
    load(answers, Promise.all([get("fact", given, signal), model]), ([found, { can_explain, can_fold_in }]) => {
      const why = h("div", { class: "stack" });
      if (can_explain) load(why, get("explain", given, signal), reasons);
      else why.append(h("p", { class: "note" }, can_fold_in ? "For reasons start the server with --known DATA."
        : "A model of this kind gives no reasons; fit one by least squares or the logistic likelihood (--model als or logit)."));
      return h("section", { class: "card stack" },
        h("h2", { class: "says" }, found.subject, " ", h("b", {}, found.relation), " ", found.object),
        h("ul", { class: "rows narrow" }, h("li", { class: found.known ? "known" : "" },
          h("span", { class: "name" }, found.known ? "Known to be true; the model's probability" : "Probability"),
          meter(found.probability), h("span", { class: "number" }, percent(found.probability)))),
        why);
    });
  }

  function several() {
    load(answers, Promise.all([get("ask", { ...given, k, known }, signal), model]), ([found, { can_explain }]) => {
      const gap = h("span", { class: "gap" }, "?");
      const words = PLACES.map((place) => (place === found.open ? gap : place === "relation" ? h("b", {}, given[place])
        : h("a", { href: entityHref(given[place]) }, given[place])));
      const about = known === "omit" && found.n_known ? `${count(found.n_known, "known answer")} left out`
        : found.n_known ? count(found.n_known, "known answer") : "";
      return h("section", { class: "card" },
        h("h2", { class: "says" }, words.flatMap((word) => [word, " "])),
        about && h("p", { class: "note" }, about),
        found.answers.length
          ? h("ol", { class: "rows" }, found.answers.map((answer) => row(answer, {
            href: found.open === "relation" ? askHref({ ...given, relation: answer.name }) : entityHref(answer.name),
            fact: can_explain ? { ...given, [found.open]: answer.name } : null,
          })))
          : h("p", { class: "note" }, "There is no other answer."));
    });
  }

  const title = filled.length >= 2 ? PLACES.map((place) => given[place] || "?").join(" ") : "Ask";
  return { title, content: [h("header", { class: "head" }, h("h1", {}, "Ask"), h("p", { class: "muted" }, "Subject, relation, object: leave one open.")), h("div", { class: "stack" }, form, answers)] };
}

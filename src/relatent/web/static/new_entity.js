// An entity that is not in the model: described by a few facts, which are in the URL; nothing is stored.

import { among, combobox } from "./combobox.js";
import { announce, h, load } from "./dom.js";
import { entitySections, similarList } from "./facts.js";
import { get, post } from "./api.js";
import { NO_NEW_ENTITIES } from "./format.js";

const MIN_SECTIONS = 6; // shown even if no fact of their kind is known

export default function newEntity(parameters, { signal, model, go }) {
  const given = factsOf(parameters.facts);
  let relations = [];
  get("relations", {}, signal).then((list) => { relations = list.relations; }, () => {});
  const name = h("input", { type: "text", required: true, maxlength: "200", placeholder: "Eve", autocomplete: "off", value: parameters.name ?? "" });
  const list = h("div"), answers = h("div", { "aria-live": "polite" }), problem = h("p", { class: "error", hidden: true, role: "alert" });
  const others = h("select", {},
    h("option", { value: "0.1" }, "incomplete: others may be true"),
    h("option", { value: "1", selected: parameters.others === "1" }, "complete: all others are false"));
  const readers = new Set(); // one function per row of the form

  function addRow(fact = {}) {
    const role = h("select", { "aria-label": "Role of the new entity" },
      h("option", { value: "subject" }, "it is the subject"), h("option", { value: "object", selected: fact.role === "object" }, "it is the object"));
    const relation = combobox({ kind: "relation", placeholder: "relation", local: (text) => among(relations)(text), label: "Relation", value: fact.relation });
    const partner = combobox({ placeholder: "other entity", label: "Other entity", value: fact.partner });
    const read = () => ({ role: role.value, relation: relation.value, partner: partner.value });
    const row = h("div", { class: "fact" }, role, relation.box, partner.box,
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this fact", onclick() { row.remove(); readers.delete(read); if (!readers.size) addRow(); } }, "✕"));
    relation.input.addEventListener("keydown", keepForm);
    partner.input.addEventListener("keydown", keepForm);
    readers.add(read);
    list.append(row);
    return relation;
  }

  function keepForm(event) {
    if (event.key === "Enter") event.preventDefault(); // Enter chooses a suggestion and must not submit the form
  }

  function submit(event) {
    event.preventDefault();
    const facts = [...readers].map((read) => read()).filter(({ relation, partner }) => relation || partner);
    const isIncomplete = facts.some(({ relation, partner }) => !relation || !partner);
    problem.hidden = facts.length > 0 && !isIncomplete;
    problem.textContent = isIncomplete ? "Each fact needs a relation and another entity." : "Give at least one fact.";
    if (!problem.hidden) return;
    const question = { name: name.value.trim(), others: others.value, facts: JSON.stringify(facts.map(({ role, relation, partner }) => [role, relation, partner])) };
    go(`/new?${new URLSearchParams(question)}`);
  }

  function predict() {
    const body = { name: parameters.name, facts: given, others: Number(others.value) };
    const ask = ({ subject, relation, object }) => {
      const role = subject === body.name ? "subject" : "object";
      return post("fold-in/explain", { ...body, fact: { relation, role, partner: role === "subject" ? object : subject } }, signal);
    };
    load(answers, Promise.all([post("fold-in", body, signal), model]), ([page, { can_explain }]) => {
      announce(`Predictions for ${page.name}`);
      return [
        h("header", { class: "head" }, h("h2", {}, `Predictions for ${page.name}`)),
        h("div", { class: "two" },
          h("div", { class: "stack" }, entitySections(page.name, page.sections, { explain: can_explain, ask, link: false, heading: "h3", minShown: MIN_SECTIONS })),
          h("aside", {}, h("section", { class: "card" }, h("h2", {}, "Similar entities"), similarList(page.similar)))),
      ];
    });
  }

  const form = h("form", { class: "card stack", onsubmit: submit },
    h("div", { class: "grid" }, h("label", {}, "Name", name), h("label", {}, "The list of facts is", others)),
    h("fieldset", { class: "plain" }, h("legend", { class: "caption" }, "Facts"), list),
    problem,
    h("div", { class: "actions" },
      h("button", { class: "main", type: "submit" }, "Predict"),
      h("button", { type: "button", onclick: () => addRow().input.focus() }, "Add a fact")));
  for (const fact of given.length ? given : [{}, {}]) addRow(fact);
  if (parameters.name && given.length) predict();
  model.then(({ can_fold_in }) => {
    if (!can_fold_in) form.replaceChildren(h("p", { class: "note" }, NO_NEW_ENTITIES));
  }, () => {});
  const about = "Describe an entity that is not in the model by a few facts. Nothing is stored; the model file does not change.";
  return {
    title: "New entity",
    content: [h("header", { class: "head" }, h("h1", {}, "New entity"), h("p", { class: "muted" }, about)), h("div", { class: "stack" }, form, answers)],
  };
}

/** The facts of the URL: a JSON list of [role, relation, partner]; none if it is something else. */
function factsOf(text) {
  try {
    return JSON.parse(text ?? "[]").map(([role, relation, partner]) => ({ role, relation, partner }));
  } catch {
    return [];
  }
}

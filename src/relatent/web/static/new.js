// An entity that the model does not know: described by a few facts, answered at once, kept nowhere.

import { among, combobox } from "./combobox.js";
import { h, load, say } from "./dom.js";
import { alike, sections } from "./facts.js";
import { get, post } from "./server.js";

export default function newcomer(values, { signal, model }) {
  let relations = [];
  get("relations", {}, signal).then((found) => { relations = found.relations; }, () => {});
  const name = h("input", { type: "text", required: true, maxlength: "200", placeholder: "Eve", autocomplete: "off" });
  const list = h("div"), answers = h("div", { "aria-live": "polite" }), wrong = h("p", { class: "fault", hidden: true, role: "alert" });
  const others = h("select", {},
    h("option", { value: "0.1" }, "a few of many facts"),
    h("option", { value: "1" }, "all there is to know"));
  const rows = new Set();

  function add() {
    const role = h("select", { "aria-label": "Role of the new entity" },
      h("option", { value: "subject" }, "it is the subject"), h("option", { value: "object" }, "it is the object"));
    const relation = combobox({ kind: "relation", placeholder: "relation", local: (text) => among(relations)(text), label: "Relation" });
    const partner = combobox({ placeholder: "other entity", label: "Other entity" });
    const read = () => ({ role: role.value, relation: relation.value, partner: partner.value });
    const line = h("div", { class: "fact" }, role, relation.box, partner.box,
      h("button", { type: "button", class: "quiet", "aria-label": "Remove this fact", onclick() { line.remove(); rows.delete(read); if (!rows.size) add(); } }, "✕"));
    relation.input.addEventListener("keydown", stay);
    partner.input.addEventListener("keydown", stay);
    rows.add(read);
    list.append(line);
    return relation;
  }

  function stay(event) {
    if (event.key === "Enter") event.preventDefault(); // a choice from the list is not yet the whole form
  }

  function submit(event) {
    event.preventDefault();
    const facts = [...rows].map((read) => read()).filter((one) => one.relation || one.partner);
    const half = facts.find((one) => !one.relation || !one.partner);
    wrong.hidden = !(half || !facts.length);
    if (!wrong.hidden) {
      wrong.textContent = half ? "Each fact needs a relation and another entity." : "Give one fact at least.";
      return;
    }
    const body = { name: name.value.trim(), facts, others: Number(others.value) };
    load(answers, Promise.all([post("fold-in", body, signal), model]), ([found]) => {
      say(`Predictions for ${found.name}`);
      return [
        h("header", { class: "head" }, h("h2", {}, `What is likely of ${found.name}`)),
        h("div", { class: "two" },
          h("div", { class: "stack" }, sections(found.name, found.sections, { explain: false, link: false, least: 6 })),
          h("aside", {}, h("section", { class: "card" }, h("h2", {}, "Similar"), alike(found.similar)))),
      ];
    });
  }

  const form = h("form", { class: "card stack", onsubmit: submit },
    h("div", { class: "grid" }, h("label", {}, "Name", name), h("label", {}, "These facts are", others)),
    h("fieldset", { class: "plain" }, h("legend", { class: "kind" }, "Facts"), list),
    wrong,
    h("div", { class: "actions" },
      h("button", { class: "main", type: "submit" }, "Predict"),
      h("button", { type: "button", onclick: () => add().input.focus() }, "Add a fact")));
  add();
  add();
  model.then((found) => {
    if (found.can_fold_in) return;
    form.replaceChildren(h("p", { class: "note" }, "A model of this kind takes no new entities; fit one by least squares or the logistic likelihood (--model als or logit)."));
  }, () => {});
  return {
    title: "New entity",
    content: [
      h("header", { class: "head" }, h("h1", {}, "New entity"), h("p", { class: "muted" }, "Describe somebody the model has not met. The model on disk stays as it is, and nothing is kept.")),
      h("div", { class: "stack" }, form, answers),
    ],
  };
}

// Where one begins: a search, a few names to try, and the doors.

import { combobox } from "./combobox.js";
import { h, load } from "./dom.js";
import { count, entityHref } from "./words.js";

export default function home(values, { model, go }) {
  const field = combobox({
    placeholder: "Search an entity by name", label: "Search an entity by name",
    pick: (name, first) => go(entityHref(first ?? name)),
  });
  field.input.setAttribute("autofocus", "");
  field.input.dataset.search = "";
  const about = h("p", { class: "muted" }, "\u00a0"), tries = h("div");
  load(tries, model, (found) => {
    const { sizes, known } = found;
    about.textContent = `${count(sizes.entities, "entity", "entities")}, ${count(sizes.relations, "relation")}`
      + (known ? `, ${count(known.facts, "known fact")}` : "; start with --known DATA to see known facts and reasons");
    return h("p", { class: "chips" }, found.examples.map((name) => h("a", { class: "chip", href: entityHref(name) }, name)));
  });
  return {
    title: "",
    content: [
      h("div", { class: "welcome" }, h("h1", {}, "What does the model know?"), field.box, about, tries),
      h("div", { class: "doors" },
        door("/ask", "Ask", "Leave one of subject, relation and object open."),
        door("/map", "Map", "See who belongs together."),
        door("/new", "New entity", "Describe somebody by a few facts."),
        door("/model", "Model", "How it was made, and how good it is.")),
    ],
  };
}

function door(href, title, about) {
  return h("a", { class: "card", href }, h("h2", {}, title), h("p", { class: "muted small" }, about));
}

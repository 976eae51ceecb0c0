// The start page: a search, a few examples, the likeliest missing facts, and links to the other pages.

import { combobox } from "./combobox.js";
import { h, load } from "./dom.js";
import { label } from "./labels.js";
import { count, entityHref } from "./format.js";
import { missingFacts } from "./missing.js";

export default function home(parameters, { model, go, signal }) {
  const search = combobox({
    placeholder: "Search for an entity by name", label: "Search for an entity by name",
    pick: (name, bestMatch) => go(entityHref(bestMatch ?? name)),
  });
  search.input.setAttribute("autofocus", "");
  search.input.dataset.search = "";
  const sizes = h("p", { class: "muted" }, "\u00a0"), examples = h("div"), missing = h("div", { class: "missing" });
  load(examples, model, (info) => {
    if (info.known) missing.append(missingFacts(info, signal));
    sizes.textContent = `${count(info.sizes.entities, "entity", "entities")}, ${count(info.sizes.relations, "relation")}`
      + (info.known ? `, ${count(info.known.facts, "known fact")}` : "; the model does not hold its facts: to see them and explanations, start the server with --known DATA");
    return h("p", { class: "chips" }, info.examples.map((name) => h("a", { class: "chip", href: entityHref(name), title: name }, label(name))));
  });
  return {
    title: "",
    content: [
      h("div", { class: "welcome" }, h("h1", {}, "Explore the model"), search.box, sizes, examples),
      missing,
      h("div", { class: "tiles" },
        tile("/ask", "Ask", "Give two of subject, relation and object; get the third."),
        tile("/map", "Map", "See which entities are similar."),
        tile("/new", "New entity", "Describe an entity by a few facts; get predictions."),
        tile("/duplicates", "Duplicates", "See which entities may be the same."),
        tile("/model", "Model", "See how it was fitted and how good it is.")),
    ],
  };
}

function tile(href, title, about) {
  return h("a", { class: "card", href }, h("h2", {}, title), h("p", { class: "muted small" }, about));
}

// One entity: known facts, predictions and their explanations, similar entities, its group.

import { errorBox, h, load } from "./dom.js";
import { entitySections, similarList, typicalFacts } from "./facts.js";
import { get, wait } from "./api.js";
import { label } from "./labels.js";
import { NO_EXPLANATIONS, colour, count, sentence } from "./format.js";

export default function entity({ name = "" }, { signal, model }) {
  if (!name) {
    const error = { message: "no entity is given", remedy: "search for one above" };
    return { title: "Entity", content: [h("h1", {}, "Entity"), errorBox(error)] };
  }
  const heading = h("h1", {}, name), nFacts = h("span", { class: "muted" }), groupLink = h("span");
  const body = h("div", { class: "stack" }), similar = h("div"), group = h("div");
  const side = h("aside", { class: "stack", hidden: true },
    h("section", { class: "card" }, h("h2", {}, "Similar entities"), similar),
    h("section", { class: "card" }, h("h2", {}, "Group"), group));

  load(body, Promise.all([get("entity", { name }, signal), model]), ([page, { can_explain, can_fold_in, calibrated, has_probabilities, probabilities, known, sizes }]) => {
    heading.textContent = label(page.name);
    heading.title = page.name;
    if (known) nFacts.textContent = count(page.facts, "known fact");
    if (sizes.rank) { // a model of rules has no vectors to compare
      side.hidden = false;
      load(similar, get("similar", { name, top: 8 }, signal), (result) => similarList(result.similar));
      showGroup();
    }
    return [
      ...entitySections(name, page.sections, { explain: can_explain, total: page.n_sections }),
      h("p", { class: "note" }, calibrated || !has_probabilities
        ? sentence(probabilities)
        : ["Probabilities are not calibrated; see ", h("a", { href: "/model" }, "how reliable they are"), "."]),
      !can_fold_in && !can_explain && h("p", { class: "note" }, NO_EXPLANATIONS),
    ].filter(Boolean);
  });

  function showGroup() {
    const loading = h("p", { class: "loading" }, "Finding groups…");
    const report = ({ note }) => { loading.textContent = `Finding groups: ${note}…`; };
    load(group, wait("group", { entity: name, count: 9 }, signal, report), ({ group: { number, size, typical }, members }) => {
      const href = `/group?number=${number}`;
      groupLink.replaceChildren(h("a", { class: "chip", href }, h("span", { class: "dot", "--c": colour(number) }), `Group ${number}`));
      return [
        h("p", {}, h("a", { href }, `Group ${number}`), h("span", { class: "muted" }, ` of ${count(size, "entity", "entities")}`)),
        h("p", { class: "small muted" }, members.filter((member) => member !== name).slice(0, 6).map(label).join(", ")),
        typical.length > 0 && h("div", { class: "small muted" }, h("p", { class: "caption" }, "Typical facts"), typicalFacts(typical)),
      ].filter(Boolean);
    });
    group.replaceChildren(loading);
  }

  return {
    title: name,
    content: [h("header", { class: "head" }, heading, nFacts, groupLink), h("div", { class: "two" }, body, side)],
  };
}

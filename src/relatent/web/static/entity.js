// One entity: what is known, what is likely and why, who is like it, where it belongs.

import { fault, h, load } from "./dom.js";
import { alike, sections, typical } from "./facts.js";
import { get, wait } from "./server.js";
import { colour, count } from "./words.js";

export default function entity({ name = "" }, { signal, model }) {
  if (!name) {
    const told = { message: "no name is given", remedy: "search for one above" };
    return { title: "Entity", content: [h("h1", {}, "Entity"), fault(told)] };
  }
  const facts = h("span", { class: "muted" }), belongs = h("span");
  const body = h("div", { class: "stack" }), similar = h("div"), group = h("div");
  const side = h("aside", { class: "stack", hidden: true },
    h("section", { class: "card" }, h("h2", {}, "Similar"), similar),
    h("section", { class: "card" }, h("h2", {}, "Group"), group));

  load(body, Promise.all([get("entity", { name }, signal), model]), ([found, { can_explain, can_fold_in, calibrated, known }]) => {
    if (known) facts.textContent = count(found.facts, "known fact");
    side.hidden = false;
    load(similar, get("similar", { name, k: 8 }, signal), (answer) => alike(answer.similar));
    showGroup();
    return [
      ...sections(name, found.sections, { explain: can_explain, total: found.n_sections }),
      h("p", { class: "note" }, calibrated
        ? "Probabilities are calibrated on cells the model had not seen."
        : ["Probabilities are the model's own; ", h("a", { href: "/model" }, "how far they hold"), "."]),
      !can_fold_in && h("p", { class: "note" }, "A model of this kind gives no reasons; fit one by least squares or the logistic likelihood (--model als or logit)."),
    ].filter(Boolean);
  });

  function showGroup() {
    const busy = h("p", { class: "busy" }, "Groups are being found…");
    const tell = ({ note }) => { busy.textContent = `Groups are being found: ${note}…`; };
    load(group, wait("group", { entity: name, count: 9 }, signal, tell), ({ group: found, members }) => {
      const href = `/group?number=${found.number}`;
      belongs.replaceChildren(h("a", { class: "chip", href }, h("span", { class: "dot", "--c": colour(found.number) }), `Group ${found.number}`));
      return [
        h("p", {}, h("a", { href }, `Group ${found.number}`), h("span", { class: "muted" }, ` of ${count(found.size, "entity", "entities")}`)),
        h("p", { class: "small muted" }, members.filter((one) => one !== name).slice(0, 6).join(", ")),
        found.typical.length > 0 && h("div", { class: "small muted" }, h("p", { class: "kind" }, "Typical of it"), typical(found.typical).map((one) => h("p", {}, one))),
      ].filter(Boolean);
    });
    group.replaceChildren(busy);
  }

  return {
    title: name,
    content: [h("header", { class: "head" }, h("h1", {}, name), facts, belongs), h("div", { class: "two" }, body, side)],
  };
}

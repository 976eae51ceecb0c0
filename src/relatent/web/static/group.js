// One group and its members.

import { h, load } from "./dom.js";
import { typical } from "./facts.js";
import { wait } from "./server.js";
import { colour, count, entityHref } from "./words.js";

const AT_ONCE = 200;

export default function group({ number = "0" }, { signal }) {
  const body = h("div", { class: "stack" }), shown = String(Number(number));
  load(body, wait("group", { number, count: AT_ONCE }, signal), ({ group: found, members }) => {
    const list = h("p", { class: "chips" }, members.map(chip));
    const more = h("button", { type: "button", onclick: next }, "Show more");
    async function next() {
      const page = await wait("group", { number, start: list.childElementCount, count: AT_ONCE }, signal);
      list.append(...page.members.map(chip));
      more.hidden = list.childElementCount >= found.size;
    }
    more.hidden = members.length >= found.size;
    return [
      h("p", { class: "muted" }, count(found.size, "entity", "entities"), ", those in the middle of the group first."),
      found.typical.length > 0 && h("section", { class: "card" }, h("h2", {}, "Typical of it"), typical(found.typical, 5).map((one) => h("p", {}, one))),
      list, more,
    ].filter(Boolean);
  });
  const dot = h("span", { class: "dot", "--c": colour(Number(number)) });
  return { title: `Group ${shown}`, content: [h("header", { class: "head" }, h("h1", {}, dot, `Group ${shown}`), h("a", { href: `/map?group=${number}` }, "on the map")), body] };
}

function chip(name) {
  return h("a", { class: "chip", href: entityHref(name) }, name);
}

// One group and its members.

import { h, load } from "./dom.js";
import { typicalFacts } from "./facts.js";
import { wait } from "./api.js";
import { label } from "./labels.js";
import { colour, count, entityHref } from "./format.js";

const PAGE_SIZE = 200; // members

export default function group({ number = "0" }, { signal }) {
  const body = h("div", { class: "stack" }), shownNumber = String(Number(number));
  load(body, wait("group", { number, count: PAGE_SIZE }, signal), ({ group: { size, typical }, members }) => {
    const list = h("p", { class: "chips" }, members.map(chip));
    const more = h("button", { type: "button", onclick: showMore }, "Show more");
    async function showMore() {
      const page = await wait("group", { number, start: list.childElementCount, count: PAGE_SIZE }, signal);
      list.append(...page.members.map(chip));
      more.hidden = list.childElementCount >= size;
    }
    more.hidden = members.length >= size;
    return [
      h("p", { class: "muted" }, count(size, "entity", "entities"), ", most central first"),
      typical.length > 0 && h("section", { class: "card" }, h("h2", {}, "Typical facts"), typicalFacts(typical, 5)),
      list, more,
    ].filter(Boolean);
  });
  const dot = h("span", { class: "dot", "--c": colour(Number(number)) });
  return { title: `Group ${shownNumber}`, content: [h("header", { class: "head" }, h("h1", {}, dot, `Group ${shownNumber}`), h("a", { href: `/map?group=${number}` }, "Show on the map")), body] };
}

function chip(name) {
  return h("a", { class: "chip", href: entityHref(name), title: name }, label(name));
}

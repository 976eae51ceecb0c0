// Pairs of entities that may be the same.

import { wait } from "./api.js";
import { h, load } from "./dom.js";
import { meter } from "./facts.js";
import { count, entityHref, percent } from "./format.js";
import { label } from "./labels.js";

const ROWS = 25; // per page

export default function duplicates({ start = "0" }, { signal }) {
  const first = Number.parseInt(start, 10) || 0;
  const list = h("div"), status = h("p", { class: "muted small" });
  const report = ({ done, total, note }) => { status.textContent = total ? `${note}: ${done} of ${total}` : note; };
  load(list, wait("duplicates", { start: first, count: ROWS }, signal, report), (page) => {
    status.textContent = "";
    const link = (text, to, possible) => possible && h("a", { href: `/duplicates?start=${to}` }, text);
    const after = first + page.pairs.length;
    return page.pairs.length === 0
      ? h("p", { class: "muted" }, "No two entities look the same.")
      : [
        h("ol", { class: "rows" }, page.pairs.map(pair)),
        h("p", { class: "small" }, link("previous", Math.max(0, first - ROWS), first > 0),
          ` ${first + 1} to ${after} of ${count(page.total, "pair")} `, link("next", after, after < page.total)),
      ];
  });
  const about = "Pairs of entities that may be the same, the likeliest first, if about one entity in ten has a duplicate.";
  return {
    title: "Duplicates",
    content: [
      h("header", { class: "head" }, h("h1", {}, "Duplicates"), h("p", { class: "muted" }, about)),
      h("section", { class: "card", "aria-label": "Pairs" }, list, status),
    ],
  };
}

function pair({ name, other, probability, shared, joined, name_match: names }) {
  const link = (entity) => h("a", { href: entityHref(entity), title: entity }, label(entity));
  const facts = joined ? "a fact connects them" : count(shared, "common fact");
  const note = names ? `${facts}, ${names} names` : facts;
  return h("li", {}, h("span", { class: "name" }, link(name), " and ", link(other)), meter(probability),
    h("span", { class: "number", title: "probability that they are the same" }, percent(probability)),
    h("span", { class: "small muted" }, note));
}

// The likeliest missing facts, with buttons to accept or reject each if the server writes a reviewed file.

import { post, wait } from "./api.js";
import { announce, errorBox, h, load } from "./dom.js";
import { chance, whyButton } from "./facts.js";
import { count, entityHref } from "./format.js";
import { label, relationLabel } from "./labels.js";

const ROWS = 25; // per page

export function missingFacts(info, signal) {
  const list = h("div"), status = h("p", { class: "muted small" });
  const show = (start) => load(list, wait("missing", { start, count: ROWS }, signal, ({ done, total }) => {
    status.textContent = total ? `${Math.round((100 * done) / total)} % of the cells compared` : "";
  }), (page) => {
    status.textContent = page.can_review ? "" : "To accept and reject facts, start the server with --review FILE.";
    return [
      page.missing.length
        ? h("ol", { class: "rows" }, page.missing.map((fact) => row(fact, info.can_explain, page.can_review)))
        : h("p", { class: "muted" }, "No fact is missing: entities that a relation has are all connected."),
      pages(page, show),
    ];
  });
  show(0);
  return h("section", { class: "card", "aria-label": "Likeliest missing facts" }, h("h2", {}, "Likeliest missing facts"), list, status);
}

function row(fact, canExplain, canReview) {
  const { subject, relation, object } = fact;
  const line = h("li", {},
    h("span", { class: "name" }, h("span", { class: "rank muted" }, `${fact.rank}.`), " ",
      h("a", { href: entityHref(subject) }, label(subject)), " ", h("b", {}, relationLabel(relation)), " ", h("a", { href: entityHref(object) }, label(object))),
    ...chance(fact),
    canExplain ? whyButton({ subject, relation, object }) : h("span"),
    canReview && review(fact, (verdict) => { line.className = verdict ?? ""; }));
  line.className = fact.verdict ?? "";
  return line;
}

/** Two buttons; pressing one again takes the decision back. */
function review({ subject, relation, object, verdict }, mark) {
  const button = (value, text) => h("button", {
    class: "link", type: "button", "aria-pressed": String(verdict === value), "aria-label": `${text}: ${subject} ${relation} ${object}`,
    async onclick() {
      try {
        ({ verdict } = await post("review", { subject, relation, object, verdict: verdict === value ? null : value }));
      } catch (error) {
        return box.append(errorBox(error));
      }
      for (const [kind, element] of Object.entries(buttons)) element.setAttribute("aria-pressed", String(kind === verdict));
      mark(verdict);
      announce(verdict ?? "decision taken back");
    },
  }, text);
  const buttons = { accepted: button("accepted", "accept"), rejected: button("rejected", "reject") };
  const box = h("span", { class: "review" }, buttons.accepted, buttons.rejected);
  return box;
}

function pages({ start, total, missing }, show) {
  if (total <= ROWS) return h("p", { class: "small muted" }, count(total, "fact"));
  const link = (text, to, possible) => possible && h("button", { class: "link", type: "button", onclick: () => show(to) }, text);
  return h("p", { class: "small" }, link("previous", start - ROWS, start > 0), ` ${start + 1} to ${start + missing.length} of ${total} `,
    link("next", start + ROWS, start + ROWS < total));
}

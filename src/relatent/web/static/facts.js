// Facts and predictions: rows with a probability, sections of an entity, and the reasons for a row.

import { h, load } from "./dom.js";
import { get } from "./server.js";
import { askHref, entityHref, percent, signed } from "./words.js";

const LIKELY = 0.05; // a section whose best guess is less likely is put away

export function meter(share) {
  return h("div", { class: "meter", "aria-hidden": "true" }, h("i", { "--p": Math.max(0, Math.min(1, share)) }));
}

/** One answer: name, bar, percent, and a button for the reasons if a fact is given. */
export function row(answer, { href = entityHref(answer.name), fact = null, wide = false } = {}) {
  const line = h("li", { class: answer.known ? "known" : "" },
    h("span", { class: "name" },
      answer.known && h("span", { class: "tick", title: "known" }, "✓"),
      answer.known && h("span", { class: "unseen" }, "known: "),
      href ? h("a", { href }, answer.name) : answer.name),
    meter(answer.probability),
    h("span", { class: "number" }, percent(answer.probability)),
    fact ? why(fact) : wide ? null : h("span"));
  return line;
}

function why(fact) {
  const button = h("button", {
    class: "link", type: "button", "aria-expanded": "false",
    "aria-label": `Why ${fact.subject} ${fact.relation} ${fact.object}?`,
    onclick() {
      const line = button.closest("li");
      const shown = line.querySelector(":scope > .why");
      button.setAttribute("aria-expanded", String(!shown));
      if (shown) return shown.remove();
      const place = h("div", { class: "why" });
      line.append(place);
      load(place, get("explain", fact), reasons);
    },
  }, "why?");
  return button;
}

/** Why a fact has its probability, in words, by known facts and by components. */
export function reasons(found) {
  const most = Math.max(...found.reasons.map((one) => Math.abs(one.influence)), 1e-9);
  const adds = Math.max(...found.components.map((one) => Math.abs(one.contribution)), 1e-9);
  return [
    h("p", {}, found.sentence),
    found.reasons.length > 0 && h("div", {},
      h("p", { class: "kind" }, "Known facts that carry it, and what the score would lose without each"),
      h("ul", { class: "rows" }, found.reasons.map((one) => h("li", { class: one.influence < 0 ? "less" : "" },
        h("span", { class: "name" }, fact(one, found)), meter(Math.abs(one.influence) / most),
        h("span", { class: "number" }, signed(one.influence)))))),
    h("details", {},
      h("summary", {}, `Components: score ${signed(found.score)}, of which ${signed(found.bias)} is the relation's own`),
      h("ul", { class: "rows" }, found.components.map((one) => h("li", { class: one.contribution < 0 ? "less" : "" },
        h("span", { class: "name small" }, h("span", { class: "muted" }, "such as "), names(one.subjects),
          h("span", { class: "muted" }, " with "), names(one.objects)),
        meter(Math.abs(one.contribution) / adds), h("span", { class: "number" }, signed(one.contribution)))))),
  ].filter(Boolean);
}

function fact(one, cell) {
  const end = (name) => (name === cell.subject || name === cell.object ? name : h("a", { href: entityHref(name) }, name));
  return [end(one.subject), " ", h("span", { class: "muted" }, one.relation), " ", end(one.object)];
}

function names(list) {
  return list.length ? list.join(", ") : "nobody else";
}

/** The sections of an entity; those in which nothing is known or likely are put away. */
export function sections(name, found, { explain, link = true, total = found.length, least = 1 }) {
  const telling = found.filter((one, place) => place < least || one.n_known || (one.predicted[0]?.probability ?? 0) >= LIKELY);
  const others = found.filter((one) => !telling.includes(one));
  const shown = telling.map((one) => section(name, one, explain, link));
  if (others.length) {
    const told = `${others.length} more ${others.length === 1 ? "place" : "places"} where nothing is likely`;
    const more = h("details", {}, h("summary", {}, told));
    more.addEventListener("toggle", () => more.childElementCount > 1
      || more.append(h("div", { class: "stack" }, others.map((one) => section(name, one, explain, link)))));
    shown.push(more);
  }
  if (total > found.length) {
    shown.push(h("p", { class: "note" }, `${total - found.length} relations more are in the API.`));
  }
  return shown;
}

function section(name, { relation, role, n_known, known, predicted }, explain, link) {
  const cell = (other) => (role === "subject"
    ? { subject: name, relation, object: other } : { subject: other, relation, object: name });
  const reason = (answer) => (explain ? cell(answer.name) : null);
  const gap = h("span", { class: "gap" }, "?");
  const own = h("span", {}, name), verb = h("b", {}, relation);
  const shown = known.slice(0, 6), rest = known.slice(6);
  return h("section", { class: "card", "data-relation": relation, "data-role": role },
    h("h3", { class: "says" }, role === "subject" ? [own, " ", verb, " ", gap] : [gap, " ", verb, " ", own]),
    n_known > 0 && [
      h("p", { class: "kind" }, "Known"),
      h("ul", { class: "rows" }, shown.map((one) => row(one, { fact: reason(one) }))),
      rest.length > 0 && h("details", {}, h("summary", { class: "small" },
        n_known > known.length ? `${rest.length} more of ${n_known}` : `${rest.length} more`),
        h("ul", { class: "rows" }, rest.map((one) => row(one, { fact: reason(one) })))),
    ],
    guesses(predicted, n_known, reason),
    link && h("p", { class: "small" }, h("a", { href: askHref(role === "subject" ? { subject: name, relation } : { relation, object: name }) }, "All answers")));
}

/** Predictions; those that are all unlikely are put away. */
function guesses(predicted, n_known, reason) {
  const likely = predicted.filter((one) => one.probability >= LIKELY);
  const list = (some) => h("ul", { class: "rows" }, some.map((one) => row(one, { fact: reason(one) })));
  if (likely.length) return [h("p", { class: "kind" }, n_known ? "Predicted" : "Predicted, none is known"), list(likely)];
  if (!predicted.length) return null;
  return h("details", {}, h("summary", { class: "small" }, `${n_known ? "Others" : "Best guesses"}: at most ${percent(predicted[0].probability)}`), list(predicted));
}

/** Entities that are alike, in the margin. */
export function alike(found) {
  return h("ul", { class: "rows narrow" }, found.map((one) => h("li", {},
    h("a", { class: "name", href: entityHref(one.name) }, one.name),
    meter(one.similarity), h("span", { class: "number muted" }, one.similarity.toFixed(2).replace("-", "−")))));
}

/** What sets a group apart, in words. */
export function typical(found, most = 3) {
  return found.slice(0, most).map((one) => h("small", {},
    one.role === "subject" ? `${one.relation} ${one.neighbour}` : `${one.neighbour} ${one.relation} them`,
    ` (${percent(one.probability)}, elsewhere ${percent(one.elsewhere)})`));
}

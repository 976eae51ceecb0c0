// Facts and predictions: rows with a probability, the sections of an entity, explanations.

import { h, load } from "./dom.js";
import { get } from "./api.js";
import { label, relationLabel } from "./labels.js";
import { askHref, count, entityHref, percent, signed, times } from "./format.js";

const MIN_PROBABILITY = 0.05; // of a prediction that shows a section without known facts
const LIFT = "times the share of true facts that is expected among those of the relation that are not listed";
const MAX_VIA = 3; // entities on the way that are named
const KNOWN_SHOWN = 6; // further known facts are collapsed

export function meter(share) {
  return h("div", { class: "meter", "aria-hidden": "true" }, h("i", { "--p": Math.max(0, Math.min(1, share)) }));
}

/** One answer: rank, name, bar, probability and lift, or the score of a model without probabilities. */
export function answerRow(answer, { href = entityHref(answer.name), explain = null, ask = undefined } = {}) {
  return h("li", { class: answer.known ? "known" : "" },
    h("span", { class: "name" },
      answer.known ? h("span", { class: "tick", title: "known" }, "✓") : h("span", { class: "rank muted", title: "rank among answers that are not known" }, `${answer.rank}.`),
      h("a", { href, title: answer.name }, label(answer.name))),
    ...chance(answer),
    explain ? whyButton(explain, ask) : h("span"));
}

/** Bar, probability and lift; without a probability, the score; of a known fact, that it is known. */
export function chance({ probability, score, lift, known }) {
  if (known) return [h("span"), h("span", { class: "number muted" }, "known"), h("span")];
  if (probability === null) {
    return [h("span", { class: "small muted" }, "score"), h("span", { class: "number", title: "a score ranks answers; it is not a probability" }, signed(score)), h("span")];
  }
  return [meter(probability), h("span", { class: "number", title: "probability" }, percent(probability)),
    h("span", { class: "number muted small", title: LIFT }, times(lift))];
}

/** A button that shows the explanation of a fact; ask: how to get it. */
export function whyButton(fact, ask = () => get("explain", fact)) {
  const button = h("button", {
    class: "link", type: "button", "aria-expanded": "false",
    "aria-label": `Why ${label(fact.subject)} ${relationLabel(fact.relation)} ${label(fact.object)}?`,
    onclick() {
      const line = button.closest("li");
      const shown = line.querySelector(":scope > .why");
      button.setAttribute("aria-expanded", String(!shown));
      if (shown) return shown.remove();
      const container = h("div", { class: "why" });
      line.append(container);
      load(container, ask(fact), explanation);
    },
  }, "why?");
  return button;
}

/** An explanation: a sentence, what is seen of the pair, the known facts behind the score, further rules, components. */
export function explanation({ sentence, subject, object, score, bias, by_patterns, by_factors, by_calibration, patterns, reasons, components, paths }) {
  const said = new Set(patterns.filter(({ rule }) => rule).map(({ rule }) => rule.body));
  const further = paths.filter(({ body }) => !said.has(body));
  const maxAdded = Math.max(...patterns.map(({ added }) => Math.abs(added)), 1e-9);
  const parts = [`relation ${signed(bias)}`, by_patterns && `patterns ${signed(by_patterns)}`, by_factors && `factors ${signed(by_factors)}`,
    by_calibration && `calibration ${signed(by_calibration)}`].filter(Boolean).join(", ");
  const maxInfluence = Math.max(...reasons.map(({ influence }) => Math.abs(influence)), 1e-9);
  const maxContribution = Math.max(...components.map(({ contribution }) => Math.abs(contribution)), 1e-9);
  const entityName = (name) => (name === subject || name === object ? label(name) : h("a", { href: entityHref(name) }, label(name)));
  return [
    h("p", {}, sentence),
    h("p", { class: "caption" }, `Score ${signed(score)}: ${parts}`),
    patterns.length > 0 && h("div", {},
      h("p", { class: "caption" }, "What is seen of the two, and what it adds to the score"),
      h("ul", { class: "rows reasons patterns" }, patterns.map(({ text, added, examples, rule }) => h("li", { class: added < 0 ? "less" : "" },
        h("span", { class: "name", title: examples.map(label).join(", ") }, text,
          rule && h("span", { class: "muted" }, ` ⇒ ${label(rule.head)} in ${percent(rule.confidence)} of ${count(Math.round(rule.support / rule.confidence), "pair")}`)),
        meter(Math.abs(added) / maxAdded),
        h("span", { class: "number" }, signed(added)))))),
    reasons.length > 0 && h("div", {},
      h("p", { class: "caption" }, "Known facts behind it, and by how much the score falls without each"),
      h("ul", { class: "rows reasons" }, reasons.map((reason) => h("li", { class: reason.influence < 0 ? "less" : "" },
        h("span", { class: "name" }, entityName(reason.subject), " ", h("span", { class: "muted" }, relationLabel(reason.relation)), " ", entityName(reason.object)),
        meter(Math.abs(reason.influence) / maxInfluence),
        h("span", { class: "number" }, signed(reason.influence)))))),
    further.length > 0 && h("div", {},
      h("p", { class: "caption" }, "Rules of the known facts that predict it, with their confidence and the facts that they predict"),
      h("ul", { class: "rows reasons paths" }, further.map(({ body, head, via, confidence, support }) => h("li", {},
        h("span", { class: "name" }, `${label(body)} ⇒ ${label(head)}`,
          via.length > 0 && [h("span", { class: "muted" }, " by "), via.slice(0, MAX_VIA).flatMap((name, i) => [i ? ", " : "", entityName(name)])]),
        meter(confidence),
        h("span", { class: "number", title: `confidence; support ${support}` }, `${percent(confidence)} of ${count(Math.round(support / confidence), "pair")}`))))),
    components.length > 0 && h("details", {},
      h("summary", {}, `Components of what the factors add: ${signed(by_factors)}`),
      h("ul", { class: "rows reasons" }, components.map(({ contribution, subjects, objects }) => h("li", { class: contribution < 0 ? "less" : "" },
        h("span", { class: "name small" }, h("span", { class: "muted" }, "subjects such as "), names(subjects),
          h("span", { class: "muted" }, "; objects such as "), names(objects)),
        meter(Math.abs(contribution) / maxContribution), h("span", { class: "number" }, signed(contribution)))))),
  ].filter(Boolean);
}

function names(list) {
  return list.length ? list.map(label).join(", ") : "no others";
}

/** The sections of an entity; those of a kind of which it has no known and no likely facts are collapsed, except the first minShown. */
export function entitySections(name, sections, { explain, ask, link = true, heading = "h2", total = sections.length, minShown = 1 }) {
  const isShown = (section, position) => position < minShown || section.n_known || (section.predicted[0]?.probability ?? 0) >= MIN_PROBABILITY;
  const shown = sections.filter(isShown);
  const collapsed = sections.filter((section) => !shown.includes(section));
  const elements = shown.map((section) => sectionCard(name, section, { explain, ask, link, heading }));
  if (collapsed.length) {
    const details = h("details", {}, h("summary", {}, `${count(collapsed.length, "more section")}: ${label(name)} has no known facts of these kinds`));
    details.addEventListener("toggle", () => details.childElementCount > 1
      || details.append(h("div", { class: "stack" }, collapsed.map((section) => sectionCard(name, section, { explain, ask, link, heading })))));
    elements.push(details);
  }
  if (total > sections.length) {
    elements.push(h("p", { class: "note" }, `The API has ${count(total - sections.length, "more section")}.`));
  }
  return elements;
}

function sectionCard(name, { relation, role, n_known, known, predicted }, { explain, ask, link, heading }) {
  const isSubject = role === "subject";
  const factWith = (other) => (isSubject ? { subject: name, relation, object: other } : { subject: other, relation, object: name });
  const rows = (answers) => h("ul", { class: "rows" }, answers.map((answer) => answerRow(answer, { explain: explain ? factWith(answer.name) : null, ask })));
  const blank = h("span", { class: "blank" }, "?"), own = h("span", {}, label(name)), verb = h("b", {}, relationLabel(relation));
  const rest = known.slice(KNOWN_SHOWN);
  const more = n_known > known.length ? `${rest.length} more of ${n_known}` : `${rest.length} more`;
  return h("section", { class: "card", "data-relation": relation, "data-role": role },
    h(heading, { class: "statement" }, isSubject ? [own, " ", verb, " ", blank] : [blank, " ", verb, " ", own]),
    n_known > 0 && [
      h("p", { class: "caption" }, "Known"),
      rows(known.slice(0, KNOWN_SHOWN)),
      rest.length > 0 && h("details", {}, h("summary", { class: "small" }, more), rows(rest)),
    ],
    predictions(predicted, n_known, rows),
    link && h("p", { class: "small" }, h("a", { href: askHref(isSubject ? { subject: name, relation } : { relation, object: name }) }, "All answers")));
}

/** The best predictions by rank, whatever their probabilities. */
function predictions(predicted, nKnown, rows) {
  return predicted.length > 0 && [h("p", { class: "caption" }, nKnown ? "Predicted" : "Predicted (none known)"), rows(predicted)];
}

/** Similar entities, for the side column. */
export function similarList(similar) {
  return h("ul", { class: "rows narrow" }, similar.map(({ name, similarity }) => h("li", {},
    h("a", { class: "name", href: entityHref(name), title: name }, label(name)),
    meter(similarity), h("span", { class: "number muted" }, similarity.toFixed(2).replace("-", "−")))));
}

/** Facts that are more probable for the members of a group than for other entities; "…" stands for the member. */
export function typicalFacts(typical, nShown = 3) {
  return typical.slice(0, nShown).map(({ role, relation, neighbour, probability, elsewhere }) => h("small", { class: "typical" },
    role === "subject" ? `… ${relationLabel(relation)} ${label(neighbour)}` : `${label(neighbour)} ${relationLabel(relation)} …`,
    ` (${percent(probability)}; other entities ${percent(elsewhere)})`));
}

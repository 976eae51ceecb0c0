// Labels of entities and relations, learned from the answers of the API: a field such as subject_label beside subject.

const labels = { entity: new Map(), relation: new Map() }, names = new Map(); // names: label → names that have it

/** Remember the labels in an answer; returns the answer. */
export function learn(answer) {
  if (answer === null || typeof answer !== "object") return answer;
  for (const [field, value] of Object.entries(answer)) {
    const own = field.replace(/_labels?$/, "");
    if (own === field || !(own in answer)) learn(value);
    else [answer[own]].flat().forEach((name, position) => remember(own === "relation" ? "relation" : "entity", name, [value].flat()[position]));
  }
  return answer;
}

function remember(kind, name, text) {
  if (!text) return;
  labels[kind].set(name, text);
  names.set(text, (names.get(text) ?? new Set()).add(name));
}

/** The label of an entity, or its name; both if several names have the label. */
export function label(name) {
  return shown(name, labels.entity.get(name) ?? labels.relation.get(name));
}

export function relationLabel(name) {
  return shown(name, labels.relation.get(name) ?? labels.entity.get(name));
}

function shown(name, text) {
  if (!text) return name;
  return names.get(text).size > 1 ? `${text} (${name})` : text;
}

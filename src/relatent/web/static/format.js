// Numbers, links, colours and repeated texts.

const USE_RESCAL = "fit one by least squares or the logistic likelihood (--model als or logit).";
export const NO_EXPLANATIONS = `This kind of model gives no explanations; ${USE_RESCAL}`;
export const NO_NEW_ENTITIES = `This kind of model cannot add entities; ${USE_RESCAL}`;

/** A probability as a percentage. */
export function percent(p) {
  if (p >= 0.995 && p < 1) return ">99 %";
  if (p > 0 && p < 0.0001) return "<0.01 %";
  if (p > 0 && p < 0.01) return `${Number((100 * p).toPrecision(1))} %`;
  return `${Math.round(100 * p)} %`;
}

/** A probability relative to the base rate of its relation. */
export function times(lift) {
  return lift === null ? "" : `×${lift >= 10 ? Math.round(lift).toLocaleString("en") : Number(lift.toPrecision(2))}`;
}

/** A message as a sentence. */
export function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

export function count(n, singular, plural = `${singular}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? singular : plural}`;
}

export function signed(x) {
  return (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
}

/** A metric between 0 and 1. */
export function metric(x) {
  return x === null || x === undefined ? "–" : x.toFixed(3);
}

/** A number with three significant digits. */
export function short(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6) return `${(x / 1e6).toLocaleString("en", { maximumFractionDigits: 1 })} M`;
  if (size >= 1e3) return Math.round(x).toLocaleString("en");
  return Number(x.toPrecision(3)).toString();
}

export function bytes(n) {
  return n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${Math.ceil(n / 1e3)} kB`;
}

export function entityHref(name) {
  return `/entity?${new URLSearchParams({ name })}`;
}

export function askHref(question) {
  return `/ask?${new URLSearchParams(question)}`;
}

/** Colours of groups: distinguishable on light and dark backgrounds. */
export const COLOURS = [
  "#3d7fb5", "#d9822b", "#3c9d6b", "#c2557b", "#8367c7", "#a8893a", "#2fa3a8", "#cc5a44", "#6d8f2f", "#9a6fb0",
  "#5b8def", "#b5702c", "#4bb08a", "#e07a9a", "#7a86c9", "#bfa13d", "#4fb3c9", "#d9776a", "#8aa84a", "#a58bd0",
];
export const NO_GROUP = 65535;
export const NO_GROUP_COLOUR = "#8a8f98";

export function colour(group) {
  return group === NO_GROUP ? NO_GROUP_COLOUR : COLOURS[group % COLOURS.length];
}

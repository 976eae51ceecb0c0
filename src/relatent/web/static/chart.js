// Two small charts, drawn as SVG.

import { svg } from "./dom.js";
import { short } from "./words.js";

const W = 420, H = 240, LEFT = 52, BOTTOM = 28, TOP = 10, RIGHT = 12;
const x = (share) => LEFT + share * (W - LEFT - RIGHT);
const y = (share) => H - BOTTOM - share * (H - BOTTOM - TOP);

function frame(label, marksX, marksY) {
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    marksY.map(([share, text]) => [
      svg("line", { class: "axis", x1: LEFT, x2: W - RIGHT, y1: y(share), y2: y(share) }),
      svg("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, text)]),
    marksX.map(([share, text]) => svg("text", { x: x(share), y: H - 8, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, text)));
}

/** The objective at each step, on a scale that shows both the fall and the end. */
export function objective(values) {
  const finite = values.filter(Number.isFinite), low = Math.min(...finite), high = Math.max(...finite);
  const scaled = low > 0 && high / low > 20 ? Math.log10 : (v) => v;
  const from = scaled(low), to = scaled(high) === from ? from + 1 : scaled(high);
  const at = (value) => (scaled(value) - from) / (to - from);
  const made = frame(`Objective from ${short(values[0])} to ${short(values.at(-1))} in ${values.length} steps`,
    [[0, "step 1"], [1, `step ${values.length}`]], [[0, short(low)], [1, short(high)]]);
  const last = Math.max(values.length - 1, 1);
  const points = values.map((value, step) => `${x(step / last).toFixed(1)},${y(at(value)).toFixed(1)}`);
  made.append(svg("polyline", { class: "line", points: points.join(" ") }));
  return made;
}

/** Share of true cells against predicted probability; on the dashed line probabilities mean what they say. */
export function reliability(bins) {
  const marks = [[0, "0"], [0.5, "50 %"], [1, "100 %"]];
  const made = frame("Reliability: share of true cells against predicted probability", marks, marks);
  const total = bins.reduce((sum, one) => sum + one.cells, 0);
  made.append(svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    svg("polyline", { class: "line", points: bins.map((one) => `${x(one.predicted).toFixed(1)},${y(one.observed).toFixed(1)}`).join(" ") }),
    ...bins.map((one) => svg("circle", { class: "dots", cx: x(one.predicted), cy: y(one.observed), r: 3 + 5 * Math.sqrt(one.cells / total) })));
  return made;
}

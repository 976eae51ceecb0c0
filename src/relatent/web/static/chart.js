// Two small charts, drawn as SVG.

import { svg } from "./dom.js";
import { short } from "./format.js";

const WIDTH = 420, HEIGHT = 240, LEFT = 52, BOTTOM = 28, TOP = 10, RIGHT = 12;
const toX = (share) => LEFT + share * (WIDTH - LEFT - RIGHT);
const toY = (share) => HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);

function axes(label, ticksX, ticksY) {
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    ticksY.map(([share, text]) => [
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: toY(share), y2: toY(share) }),
      svg("text", { x: LEFT - 8, y: toY(share) + 4, "text-anchor": "end" }, text)]),
    ticksX.map(([share, text]) => svg("text", { x: toX(share), y: HEIGHT - 8, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, text)));
}

/** The objective per step; logarithmic if it falls by more than a factor of 20. */
export function objectiveChart(values) {
  const finite = values.filter(Number.isFinite), low = Math.min(...finite), high = Math.max(...finite);
  const scale = low > 0 && high / low > 20 ? Math.log10 : (value) => value;
  const bottom = scale(low), top = scale(high) === bottom ? bottom + 1 : scale(high);
  const chart = axes(`Objective from ${short(values[0])} to ${short(values.at(-1))} in ${values.length} steps`,
    [[0, "step 1"], [1, `step ${values.length}`]], [[0, short(low)], [1, short(high)]]);
  const last = Math.max(values.length - 1, 1);
  const points = values.map((value, step) => `${toX(step / last).toFixed(1)},${toY((scale(value) - bottom) / (top - bottom)).toFixed(1)}`);
  chart.append(svg("polyline", { class: "line", points: points.join(" ") }));
  return chart;
}

/** Share of true cells by predicted probability; calibrated probabilities lie on the dashed line. */
export function reliabilityChart(bins) {
  const ticks = [[0, "0"], [0.5, "50 %"], [1, "100 %"]];
  const chart = axes("Reliability: share of true cells by predicted probability", ticks, ticks);
  const total = bins.reduce((sum, bin) => sum + bin.cells, 0);
  chart.append(svg("line", { class: "ideal", x1: toX(0), y1: toY(0), x2: toX(1), y2: toY(1) }),
    svg("polyline", { class: "line", points: bins.map((bin) => `${toX(bin.predicted).toFixed(1)},${toY(bin.observed).toFixed(1)}`).join(" ") }),
    ...bins.map((bin) => svg("circle", { class: "dots", cx: toX(bin.predicted), cy: toY(bin.observed), r: 3 + 5 * Math.sqrt(bin.cells / total) })));
  return chart;
}

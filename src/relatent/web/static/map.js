// The map: every entity a point, coloured by its group. The list of groups beside it says the same without a mouse.

import { h, load, say } from "./dom.js";
import { typical } from "./facts.js";
import { Plane } from "./plane.js";
import { get, wait } from "./server.js";
import { colour, count, entityHref } from "./words.js";

export default function map({ group = "", method = "" }, { signal, go }) {
  const tip = h("span", { class: "tip", hidden: true }), waiting = h("p", { class: "wait muted", role: "status" });
  const points = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of the entities; the groups are listed beside it" });
  const labels = h("canvas", { class: "labels", "aria-hidden": "true" });
  const tool = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const box = h("div", { class: "plane" }, points, labels, tip, waiting,
    h("div", { class: "tools" }, tool("+", "Zoom in", () => plane.zoom(1.5)), tool("−", "Zoom out", () => plane.zoom(1 / 1.5)), tool("⤢", "Show all", () => plane.reset())));
  const list = h("div", { class: "groups" }), ways = h("span", { class: "under" });
  const names = new Names(signal);
  let chosen = group === "" ? null : Number(group);

  const plane = new Plane(points, labels, {
    signal,
    name: (id) => names.at(id),
    fetchName: (id) => names.get(id),
    open: async (id) => go(entityHref(await names.get(id))),
    hover: async (id, place) => {
      tip.hidden = id === null;
      if (id === null) return;
      tip.style.left = `${place.x}px`;
      tip.style.top = `${place.y}px`;
      tip.textContent = names.at(id) ?? "…";
      const name = await names.get(id);
      if (plane.hovered === id) tip.textContent = name;
    },
  });

  async function lay(way) {
    const tell = ({ note }) => { waiting.textContent = `${note}…`; };
    waiting.textContent = "Laying out…";
    const found = await wait("map/points", { method: way }, signal, tell);
    waiting.textContent = "";
    plane.place(new Float32Array(found));
    box.dataset.method = way;
    box.dataset.painter = plane.gl ? "webgl" : "pixels";
  }

  async function start() {
    const about = await get("map", {}, signal);
    const open = about.ways.filter((one) => one.available);
    const radio = (one) => h("label", { class: "check" }, h("input", { type: "radio", name: "way", value: one.method, onchange: () => lay(one.method).catch(failed) }), one.method === "pca" ? "Overview (PCA)" : "Neighbours (t-SNE)");
    if (open.length > 1) ways.append(...open.map(radio));
    const first = open.some((one) => one.method === method) ? method : "pca";
    const button = ways.querySelector(`[value=${first}]`);
    if (button) button.checked = true;
    await lay(first);
    box.dataset.points = about.entities;
    const numbers = await wait("map/groups", {}, signal, ({ done, total, note }) => { waiting.textContent = `Colours follow: ${note}${total ? ` (${done} of ${total})` : ""}…`; });
    waiting.textContent = "";
    plane.colours(new Uint16Array(numbers));
    if (chosen !== null) plane.only(chosen);
    box.dataset.coloured = "";
  }

  function failed(error) {
    if (error.name === "AbortError") return;
    waiting.textContent = error.message;
  }

  load(list, wait("groups", {}, signal), ({ groups }) => {
    say(count(groups.length, "group"));
    return h("ul", {}, groups.map((one) => {
      const line = h("li", { class: one.number === chosen ? "on" : "" },
        h("button", { type: "button", "aria-pressed": String(one.number === chosen), onclick: () => choose(one.number, line) },
          h("span", { class: "dot", "--c": colour(one.number) }),
          h("span", {}, `Group ${one.number}`, h("small", {}, count(one.size, "entity", "entities"), ": ", one.members.slice(0, 3).join(", "), one.size > 3 ? " …" : ""), typical(one.typical, 1))),
        h("a", { class: "small", href: `/group?number=${one.number}`, "aria-label": `Members of group ${one.number}` }, "open"));
      return line;
    }));
  });

  function choose(number, line) {
    chosen = chosen === number ? null : number;
    for (const one of list.querySelectorAll("li")) {
      const on = one === line && chosen !== null;
      one.classList.toggle("on", on);
      one.querySelector("button").setAttribute("aria-pressed", String(on));
    }
    plane.only(chosen);
  }

  start().catch(failed);
  return {
    title: "Map",
    content: [
      h("header", { class: "head" }, h("h1", {}, "Map"), ways, h("p", { class: "muted small" }, "Near means: the model says alike things of both. Drag to move, scroll to zoom, click to open.")),
      h("div", { class: "map" }, box, h("section", { "aria-label": "Groups" }, list)),
    ],
  };
}

/** Names by id, fetched in blocks when needed. */
class Names {
  constructor(signal) {
    this.signal = signal;
    this.blocks = new Map();
  }

  at(id) {
    return this.blocks.get(id >> 9)?.names?.[id & 511] ?? null;
  }

  async get(id) {
    const block = id >> 9;
    if (!this.blocks.has(block)) {
      const entry = { names: null };
      entry.promise = get("names", { start: block << 9, count: 512 }, this.signal).then((found) => { entry.names = found.names; });
      this.blocks.set(block, entry);
      entry.promise.catch(() => this.blocks.delete(block));
    }
    await this.blocks.get(block).promise;
    return this.at(id);
  }
}

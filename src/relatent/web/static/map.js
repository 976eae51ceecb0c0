// The map: every entity is a point in the colour of its group. The list of groups has the same information as text.

import { announce, h, load } from "./dom.js";
import { typicalFacts } from "./facts.js";
import { Scatter } from "./scatter.js";
import { get, wait } from "./api.js";
import { label } from "./labels.js";
import { colour, count, entityHref } from "./format.js";

const METHOD_LABELS = { pca: "Overview (PCA)", tsne: "Neighbours (t-SNE)" };

export default function map({ group = "", method = "" }, { signal, go }) {
  const tip = h("span", { class: "tip", hidden: true }), status = h("p", { class: "wait muted", role: "status" });
  const points = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of the entities; the list of groups has the same information" });
  const labels = h("canvas", { class: "labels", "aria-hidden": "true" });
  const tool = (text, title, onclick) => h("button", { type: "button", "aria-label": title, title, onclick }, text);
  const box = h("div", { class: "plane" }, points, labels, tip, status,
    h("div", { class: "tools" }, tool("+", "Zoom in", () => scatter.zoom(1.5)), tool("−", "Zoom out", () => scatter.zoom(1 / 1.5)), tool("⤢", "Show all", () => scatter.reset())));
  const list = h("div", { class: "groups" }), methods = h("span", { class: "under" });
  const names = new NameCache(signal);
  let chosen = group === "" ? null : Number(group), wanted = "";

  const scatter = new Scatter(points, labels, {
    signal,
    name: (id) => names.peek(id),
    fetchName: (id) => names.get(id),
    open: async (id) => go(entityHref(await names.get(id))),
    hover: async (id, position) => {
      tip.hidden = id === null;
      if (id === null) return;
      tip.style.left = `${position.x}px`;
      tip.style.top = `${position.y}px`;
      tip.textContent = label(names.peek(id) ?? "…");
      const name = label(await names.get(id));
      if (scatter.hovered === id) tip.textContent = name;
    },
  });

  async function place(chosenMethod) {
    wanted = chosenMethod;
    status.textContent = "Computing the layout…";
    const coordinates = await wait("map/points", { method: chosenMethod }, signal, ({ note }) => { status.textContent = `${note}…`; });
    if (wanted !== chosenMethod) return; // another was chosen meanwhile
    status.textContent = "";
    scatter.place(new Float32Array(coordinates));
    box.dataset.method = chosenMethod;
    box.dataset.painter = scatter.gl ? "webgl" : "pixels";
  }

  async function start() {
    const { ways, entities, default: usual } = await get("map", {}, signal);
    const available = ways.filter((way) => way.available).map((way) => way.method);
    const radio = (value) => h("label", { class: "check" }, h("input", { type: "radio", name: "method", value, onchange: () => place(value).catch(showError) }), METHOD_LABELS[value]);
    if (available.length > 1) methods.append(...available.map(radio));
    const first = available.includes(method) ? method : usual;
    const button = methods.querySelector(`[value=${first}]`);
    if (button) button.checked = true;
    await place("pca"); // at once
    if (first !== "pca") await place(first);
    box.dataset.points = entities;
    const numbers = await wait("map/groups", {}, signal, ({ done, total, note }) => { status.textContent = `Finding groups: ${note}${total ? ` (${done} of ${total})` : ""}…`; });
    status.textContent = "";
    scatter.colour(new Uint16Array(numbers));
    if (chosen !== null) scatter.select(chosen);
    box.dataset.coloured = "";
  }

  function showError(error) {
    if (error.name !== "AbortError") status.textContent = error.message;
  }

  load(list, wait("groups", {}, signal), ({ groups }) => {
    announce(count(groups.length, "group"));
    return h("ul", {}, groups.map(({ number, size, members, typical, type }) => {
      const line = h("li", { class: number === chosen ? "on" : "" },
        h("button", { type: "button", "aria-pressed": String(number === chosen), onclick: () => choose(number, line) },
          h("span", { class: "dot", "--c": colour(number) }),
          h("span", {}, type ?? `Group ${number}`, h("small", {}, count(size, "entity", "entities"), ": ", members.slice(0, 3).map(label).join(", "), size > 3 ? " …" : ""), typicalFacts(typical, 1))),
        h("a", { class: "small", href: `/group?number=${number}`, "aria-label": `Members of group ${number}` }, "open"));
      return line;
    }));
  });

  function choose(number, line) {
    chosen = chosen === number ? null : number;
    for (const item of list.querySelectorAll("li")) {
      const isChosen = item === line && chosen !== null;
      item.classList.toggle("on", isChosen);
      item.querySelector("button").setAttribute("aria-pressed", String(isChosen));
    }
    scatter.select(chosen);
  }

  start().catch(showError);
  return {
    title: "Map",
    content: [
      h("header", { class: "head" }, h("h1", {}, "Map"), methods, h("p", { class: "muted small" }, "Nearby entities have similar predictions. Drag to move, scroll to zoom, click to open.")),
      h("div", { class: "map" }, box, h("section", { "aria-label": "Groups" }, list)),
    ],
  };
}

/** Names by id, fetched in blocks of 512. */
class NameCache {
  constructor(signal) {
    this.signal = signal;
    this.blocks = new Map();
  }

  /** The name, or null if it is not fetched yet. */
  peek(id) {
    return this.blocks.get(id >> 9)?.names?.[id & 511] ?? null;
  }

  async get(id) {
    const block = id >> 9;
    if (!this.blocks.has(block)) {
      const entry = { names: null };
      entry.promise = get("names", { start: block << 9, count: 512 }, this.signal).then((page) => { entry.names = page.names; });
      this.blocks.set(block, entry);
      entry.promise.catch(() => this.blocks.delete(block));
    }
    await this.blocks.get(block).promise;
    return this.peek(id);
  }
}

// A field that suggests while one types: the ARIA combobox, by keyboard, mouse and touch.

import { h } from "./dom.js";
import { get } from "./server.js";

let made = 0;

/**
 * kind: "entity" or "relation". pick(name) is called for a chosen suggestion; Enter without one calls it with the text.
 * local: a function (text) → [{ name, facts }] in place of a search on the server.
 */
export function combobox({ kind = "entity", placeholder = "", value = "", label, pick = () => {}, local, id }) {
  const number = (made += 1);
  const listId = `list-${number}`;
  const input = h("input", {
    type: "text", role: "combobox", placeholder, id, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list", "aria-label": label ?? null,
  });
  const list = h("ul", { id: listId, role: "listbox", hidden: true, "aria-label": "Suggestions" });
  const box = h("div", { class: "combo" }, input, list);
  input.value = value;
  let chosen = -1, asked = null, timer = 0;

  async function suggest() {
    asked?.abort();
    const text = input.value.trim();
    if (!text && !local) return close();
    asked = new AbortController();
    const mine = asked.signal;
    try {
      const matches = local ? local(text) : (await get("search", { q: text, kind, limit: 12 }, mine)).matches;
      if (mine.aborted || document.activeElement !== input) return;
      show(matches, text);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  function show(matches, text) {
    chosen = -1;
    list.replaceChildren(...(matches.length ? matches.map(option(text)) : [h("li", { class: "none" }, "Nothing has that name")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  }

  const option = (text) => ({ name, facts }, place) =>
    h("li", { role: "option", id: `${listId}-${place}`, "aria-selected": "false", "data-name": name,
      onpointerdown: (event) => { event.preventDefault(); take(name); } },
      h("span", {}, marked(name, text)),
      facts > 0 && h("span", {}, facts.toLocaleString("en"), facts === 1 ? " fact" : " facts"));

  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    if (!options.length) return;
    chosen = (chosen + step + options.length + (chosen < 0 && step < 0 ? 1 : 0)) % options.length;
    options.forEach((one, place) => one.setAttribute("aria-selected", String(place === chosen)));
    input.setAttribute("aria-activedescendant", options[chosen].id);
    options[chosen].scrollIntoView({ block: "nearest" });
  }

  function take(name) {
    input.value = name;
    close();
    pick(name);
  }

  function close() {
    asked?.abort();
    clearTimeout(timer);
    list.hidden = true;
    list.replaceChildren();
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, local ? 0 : 60);
  });
  if (local) input.addEventListener("focus", suggest);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) suggest();
      else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    } else if (event.key === "Enter") {
      const option = list.querySelector("[aria-selected=true]") ?? exact();
      if (option) {
        event.preventDefault();
        take(option.dataset.name);
      } else if (input.value.trim()) {
        const first = list.querySelector("[role=option]");
        close();
        pick(input.value.trim(), first?.dataset.name);
      }
    }
  });

  function exact() {
    const text = input.value.trim().toLowerCase();
    return [...list.querySelectorAll("[role=option]")].find((one) => one.dataset.name.toLowerCase() === text);
  }

  return { box, input, get value() { return input.value.trim(); }, set value(text) { input.value = text; } };
}

/** The name with the typed part marked. */
function marked(name, text) {
  const at = text ? name.toLowerCase().indexOf(text.toLowerCase()) : -1;
  if (at < 0) return [name];
  return [name.slice(0, at), h("mark", {}, name.slice(at, at + text.length)), name.slice(at + text.length)];
}

/** Suggestions from a list that is here already. */
export function among(items) {
  return (text) => {
    const wanted = text.toLowerCase();
    const hits = items.filter((one) => one.name.toLowerCase().includes(wanted));
    return hits.sort((a, b) => rank(a, wanted) - rank(b, wanted)).slice(0, 50);
  };
}

function rank(one, wanted) {
  return one.name.toLowerCase().startsWith(wanted) ? 0 : 1;
}

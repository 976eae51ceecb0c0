// A text field with suggestions: the ARIA combobox pattern, for keyboard, mouse and touch.

import { h } from "./dom.js";
import { get } from "./api.js";
import { label, relationLabel } from "./labels.js";

const TYPING_PAUSE_MS = 60;
let nComboboxes = 0;

/**
 * kind: "entity" or "relation".
 * pick(name): called with a chosen suggestion. Enter without a choice calls pick(text, best match).
 * local: a function (text) → [{ name, facts }] that is used instead of a search on the server.
 */
export function combobox({ kind = "entity", placeholder = "", value = "", label: ariaLabel, pick = () => {}, local, id }) {
  nComboboxes += 1;
  const listId = `list-${nComboboxes}`;
  const input = h("input", {
    type: "text", role: "combobox", placeholder, id, autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list", "aria-label": ariaLabel ?? null,
  });
  const list = h("ul", { id: listId, role: "listbox", hidden: true, "aria-label": "Suggestions" });
  const box = h("div", { class: "combo" }, input, list);
  input.value = value;
  let selected = -1, request = null, timer = 0;

  async function suggest() {
    request?.abort();
    const text = input.value.trim();
    if (!text && !local) return close();
    request = new AbortController();
    const { signal } = request;
    try {
      const matches = local ? local(text) : (await get("search", { q: text, kind, top: 12 }, signal)).matches;
      if (signal.aborted || document.activeElement !== input) return;
      show(matches, text);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  function show(matches, text) {
    selected = -1;
    list.replaceChildren(...(matches.length ? matches.map(option(text)) : [h("li", { class: "none" }, "No matching names")]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  }

  const option = (text) => ({ name, facts }, position) =>
    h("li", { role: "option", id: `${listId}-${position}`, "aria-selected": "false", "data-name": name,
      onpointerdown: (event) => { event.preventDefault(); choose(name); } },
      h("span", {}, highlighted((kind === "relation" ? relationLabel : label)(name), text)),
      facts > 0 && h("span", {}, facts.toLocaleString("en"), facts === 1 ? " fact" : " facts"));

  function move(step) {
    const options = [...list.querySelectorAll("[role=option]")];
    if (!options.length) return;
    selected = (selected + step + options.length + (selected < 0 && step < 0 ? 1 : 0)) % options.length;
    options.forEach((item, position) => item.setAttribute("aria-selected", String(position === selected)));
    input.setAttribute("aria-activedescendant", options[selected].id);
    options[selected].scrollIntoView({ block: "nearest" });
  }

  function choose(name) {
    input.value = name;
    close();
    pick(name);
  }

  function close() {
    request?.abort();
    clearTimeout(timer);
    list.hidden = true;
    list.replaceChildren();
    selected = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(suggest, local ? 0 : TYPING_PAUSE_MS);
  });
  if (local) input.addEventListener("focus", suggest);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) suggest();
      else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape") {
      if (!list.hidden) event.preventDefault();
      close(); // also cancels suggestions that are on their way
    } else if (event.key === "Enter") {
      const choice = list.querySelector("[aria-selected=true]") ?? exactMatch();
      if (choice) {
        event.preventDefault();
        choose(choice.dataset.name);
      } else if (input.value.trim()) {
        const first = list.querySelector("[role=option]");
        close();
        pick(input.value.trim(), first?.dataset.name);
      }
    }
  });

  function exactMatch() {
    const text = input.value.trim().toLowerCase();
    return [...list.querySelectorAll("[role=option]")].find((item) => item.dataset.name.toLowerCase() === text);
  }

  return { box, input, get value() { return input.value.trim(); }, set value(text) { input.value = text; } };
}

/** The name with the typed part highlighted. */
function highlighted(name, text) {
  const start = text ? name.toLowerCase().indexOf(text.toLowerCase()) : -1;
  if (start < 0) return [name];
  return [name.slice(0, start), h("mark", {}, name.slice(start, start + text.length)), name.slice(start + text.length)];
}

/** Suggestions from a list in memory, prefixes first. */
export function among(items) {
  return (text) => {
    const wanted = text.toLowerCase();
    const texts = ({ name }) => [name.toLowerCase(), relationLabel(name).toLowerCase()];
    const isPrefix = (item) => texts(item).some((known) => known.startsWith(wanted));
    const matches = items.filter((item) => texts(item).some((known) => known.includes(wanted)));
    return matches.sort((a, b) => isPrefix(b) - isPrefix(a)).slice(0, 50);
  };
}

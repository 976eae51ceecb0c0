// Elements without a framework: h("a", { href: "/" }, "text"). Texts are text, never markup.

export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let spoken = 0;

/** Tell those who hear the page. */
export function say(text) {
  const place = document.getElementById("said");
  spoken += 1;
  place.textContent = text + (spoken % 2 ? "" : "\u00a0"); // the same text twice is said twice
}

/** A place that shows it is waiting, then what came, or what went wrong. */
export async function load(place, promise, render) {
  place.setAttribute("aria-busy", "true");
  place.replaceChildren(h("p", { class: "busy" }, "One moment…"));
  try {
    const found = await promise;
    place.replaceChildren(...[render(found)].flat());
  } catch (error) {
    if (error.name === "AbortError") return;
    place.replaceChildren(fault(error));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** What went wrong and what to do, with names that may have been meant. */
export function fault(error) {
  const kind = error.code === "unknown_relation" ? null : "/entity?name=";
  const close = error.close ?? [];
  say(error.message);
  return h("div", { class: "fault" },
    h("p", {}, h("b", {}, capital(error.message), ".")),
    close.length
      ? h("p", { class: "muted" }, "Did you mean one of these?")
      : h("p", { class: "muted" }, capital(error.remedy ?? "try again"), "."),
    close.length > 0 && h("p", { class: "chips" }, close.map((name) =>
      kind ? h("a", { class: "chip", href: kind + encodeURIComponent(name) }, name) : h("span", { class: "chip" }, name))));
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1).replace(/[.?]$/, "");
}

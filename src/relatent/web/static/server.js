// What is asked of the server. Every failure is an error with code, message and remedy.

class Failure extends Error {
  constructor({ code, message, remedy, close }) {
    super(message);
    Object.assign(this, { code, remedy, close });
  }
}

/** GET /api/PATH; values that are empty are left out. */
export async function get(path, values = {}, signal) {
  return (await reply(path, values, signal)).json();
}

/** GET something that takes long: asks again until it is there, and tells how far it is. */
export async function wait(path, values = {}, signal, tell = () => {}) {
  for (let pause = 150; ; pause = Math.min(pause * 1.4, 1500)) {
    const response = await reply(path, values, signal);
    if (response.status !== 202) {
      const isJson = response.headers.get("content-type").startsWith("application/json");
      return isJson ? response.json() : response.arrayBuffer();
    }
    tell(await response.json());
    await new Promise((go) => setTimeout(go, pause));
    signal?.throwIfAborted();
  }
}

/** POST JSON. */
export async function post(path, body, signal) {
  const request = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return (await checked(() => fetch("/api/" + path, request))).json();
}

function reply(path, values, signal) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return checked(() => fetch(`/api/${path}${query && "?" + query}`, { signal }));
}

async function checked(ask) {
  let response;
  try {
    response = await ask();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure({ code: "no_answer", message: "the server does not answer", remedy: "is it still running?" });
  }
  if (response.ok) return response;
  let told;
  try {
    told = (await response.json()).error;
  } catch {
    told = { code: "odd", message: `the server answered ${response.status}`, remedy: "try again" };
  }
  throw new Failure(told);
}

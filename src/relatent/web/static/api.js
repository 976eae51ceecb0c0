// Requests to the API. Every failure is an ApiError with code, message and remedy.

import { learn } from "./labels.js";

const FIRST_PAUSE_MS = 150, MAX_PAUSE_MS = 1500; // between requests for a result that is being computed

class ApiError extends Error {
  constructor({ code, message, remedy, close }) {
    super(message);
    Object.assign(this, { code, remedy, close });
  }
}

/** GET /api/PATH as JSON; empty parameters are left out. */
export async function get(path, parameters = {}, signal) {
  return learn(await (await request(path, parameters, signal)).json());
}

/** GET a result that the server computes in the background: ask until it is ready; report(progress) after each try. */
export async function wait(path, parameters = {}, signal, report = () => {}) {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 1.4, MAX_PAUSE_MS)) {
    const response = await request(path, parameters, signal);
    if (response.status !== 202) {
      const isJson = response.headers.get("content-type").startsWith("application/json");
      return isJson ? learn(await response.json()) : response.arrayBuffer();
    }
    report(await response.json());
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    signal?.throwIfAborted();
  }
}

/** POST JSON. */
export async function post(path, body, signal) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
  return learn(await (await checked(() => fetch(`/api/${path}`, options))).json());
}

function request(path, parameters, signal) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return checked(() => fetch(`/api/${path}${query && `?${query}`}`, { signal }));
}

async function checked(send) {
  let response;
  try {
    response = await send();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ code: "no_response", message: "the server does not respond", remedy: "check that it is running" });
  }
  if (response.ok) return response;
  let error;
  try {
    ({ error } = await response.json());
  } catch {
    error = { code: "unexpected", message: `the server answered with status ${response.status}`, remedy: "try again" };
  }
  throw new ApiError(error);
}

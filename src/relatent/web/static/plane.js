// Points on a plane: pan, zoom, and which point is under the pointer, fluid for a hundred thousand. Drawn by the graphics
// card where there is one; otherwise into an array of pixels, which is several times faster than WebGL in software.

import { COLOURS } from "./words.js";

const GRID = 128; // cells a side, in which points are looked up
const NEAR = 14; // pixels
const FEW = 70; // points in sight that get their names written

const VERTEX = `#version 300 es
in vec2 point;
in float group;
uniform vec2 scale, shift;
uniform float size, only;
uniform vec3 palette[${COLOURS.length}];
out vec4 colour;
void main() {
  gl_Position = vec4(point * scale + shift, 0.0, 1.0);
  gl_PointSize = size;
  bool known = group < 60000.0;
  vec3 own = known ? palette[int(mod(group, ${COLOURS.length}.0))] : vec3(0.54, 0.56, 0.6);
  bool dim = only >= 0.0 && group != only;
  colour = vec4(own, dim ? 0.10 : 0.82);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 colour;
out vec4 result;
void main() {
  float r = length(gl_PointCoord - 0.5) * 2.0;
  float a = colour.a * (1.0 - smoothstep(0.78, 1.0, r));
  result = vec4(colour.rgb * a, a);
}`;

export class Plane {
  /** name(id): a name if it is here already; fetchName(id): a promise of it. */
  constructor(canvas, labels, { signal, name, fetchName, open, hover }) {
    Object.assign(this, { canvas, labels, name, fetchName, open, hover, signal });
    this.points = new Float32Array(0);
    this.groups = null;
    this.chosen = -1;
    this.hovered = null;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.drawing = 0;
    this.prepare();
    this.listen();
  }

  // --- what is shown

  place(points) {
    this.points = points;
    this.index();
    const gl = this.gl;
    if (gl) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.pointBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
      if (!this.groups) this.colours(new Uint16Array(points.length / 2).fill(65535));
    }
    this.draw();
  }

  colours(groups) {
    this.groups = groups;
    const gl = this.gl;
    if (gl) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.groupBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, groups, gl.STATIC_DRAW);
    }
    this.draw();
  }

  only(group) {
    this.chosen = group === null ? -1 : group;
    this.draw();
  }

  zoom(factor, at = { x: this.width / 2, y: this.height / 2 }) {
    const before = this.toPlane(at);
    this.view.zoom = Math.max(0.5, Math.min(400, this.view.zoom * factor));
    const after = this.toPlane(at);
    this.view.x += before.x - after.x;
    this.view.y += before.y - after.y;
    this.draw();
  }

  reset() {
    this.view = { x: 0, y: 0, zoom: 1 };
    this.draw();
  }

  // --- between the plane and the screen

  get unit() {
    return 0.46 * Math.min(this.width, this.height) * this.view.zoom; // pixels of a length of 1
  }

  toPlane({ x, y }) {
    return { x: this.view.x + (x - this.width / 2) / this.unit, y: this.view.y - (y - this.height / 2) / this.unit };
  }

  toScreen(id) {
    return {
      x: this.width / 2 + (this.points[2 * id] - this.view.x) * this.unit,
      y: this.height / 2 - (this.points[2 * id + 1] - this.view.y) * this.unit,
    };
  }

  // --- drawing

  prepare() {
    const gl = (this.gl = hasCard() ? this.canvas.getContext("webgl2", { antialias: false }) : null);
    if (!gl) {
      this.flat = this.canvas.getContext("2d", { alpha: false });
      return;
    }
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.at = Object.fromEntries(["scale", "shift", "size", "only", "palette"].map((name) => [name, gl.getUniformLocation(program, name)]));
    const buffer = (name, size, kind) => {
      const made = gl.createBuffer(), place = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, made);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, kind, false, 0, 0);
      return made;
    };
    this.pointBuffer = buffer("point", 2, gl.FLOAT);
    this.groupBuffer = buffer("group", 1, gl.UNSIGNED_SHORT);
    gl.uniform3fv(this.at.palette, COLOURS.flatMap((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)));
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  draw() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => { this.drawing = 0; this.paint(); });
  }

  measure() {
    const box = this.canvas.getBoundingClientRect(), ratio = Math.min(devicePixelRatio || 1, 2);
    this.width = box.width;
    this.height = box.height;
    for (const one of [this.canvas, this.labels]) {
      if (one.width !== Math.round(box.width * ratio) || one.height !== Math.round(box.height * ratio)) {
        one.width = Math.round(box.width * ratio);
        one.height = Math.round(box.height * ratio);
      }
    }
    this.ratio = ratio;
  }

  paint() {
    this.measure();
    const count = this.points.length / 2;
    if (!count || !this.width) return;
    const size = this.ratio * Math.max(2, Math.min(12, (11 - 1.7 * Math.log10(count)) * this.view.zoom ** 0.3));
    if (this.gl) this.paintByWebgl(count, size);
    else this.paintFlat(count, size);
    this.label();
  }

  paintByWebgl(count, size) {
    const gl = this.gl, x = (2 * this.unit) / this.width, y = (2 * this.unit) / this.height;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.at.scale, x, y);
    gl.uniform2f(this.at.shift, -this.view.x * x, -this.view.y * y);
    gl.uniform1f(this.at.size, size);
    gl.uniform1f(this.at.only, this.chosen);
    gl.drawArrays(gl.POINTS, 0, count);
  }

  /** Where there is no graphics card: discs blended into an array of pixels. */
  paintFlat(count, size) {
    const { width, height } = this.canvas, ratio = this.ratio, groups = this.groups, points = this.points;
    if (this.image?.width !== width || this.image?.height !== height) this.image = this.flat.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer), { side, cover } = disc(size);
    pixels.fill(packed(getComputedStyle(this.canvas.parentElement).backgroundColor));
    const unit = this.unit * ratio, x0 = width / 2 - this.view.x * unit - side / 2, y0 = height / 2 + this.view.y * unit - side / 2;
    for (let id = 0; id < count; id += 1) {
      const x = Math.round(x0 + points[2 * id] * unit), y = Math.round(y0 - points[2 * id + 1] * unit);
      if (x < 0 || y < 0 || x + side > width || y + side > height) continue;
      const group = groups ? groups[id] : 65535, colour = group === 65535 ? GREY : PACKED[group % PACKED.length];
      const alpha = this.chosen >= 0 && group !== this.chosen ? 26 : 210;
      for (let row = 0, i = 0; row < side; row += 1) {
        for (let place = (y + row) * width + x, stop = place + side; place < stop; place += 1, i += 1) {
          const own = (cover[i] * alpha) >> 8;
          if (own) pixels[place] = blended(pixels[place], colour, own);
        }
      }
    }
    this.flat.putImageData(this.image, 0, 0);
  }

  /** Names of the points in sight, where there are few, and none over another. */
  label() {
    const paper = this.labels.getContext("2d");
    paper.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    paper.clearRect(0, 0, this.width, this.height);
    const seen = this.inSight(FEW * 3);
    if (!seen || seen.length > FEW * 3) return;
    const missing = seen.find((id) => this.name(id) === null);
    if (missing !== undefined) {
      this.fetchNames(seen);
      return;
    }
    paper.font = "12px system-ui, sans-serif";
    paper.fillStyle = getComputedStyle(this.canvas).color;
    const taken = [];
    for (const id of seen) {
      if (this.chosen >= 0 && this.groups?.[id] !== this.chosen) continue;
      const { x, y } = this.toScreen(id), text = shortened(this.name(id));
      const box = [x + 6, y - 8, x + 10 + paper.measureText(text).width, y + 8];
      if (box[2] > this.width || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      taken.push(box);
      paper.fillText(text, x + 8, y + 4);
      if (taken.length >= FEW) break;
    }
  }

  fetchNames(ids) {
    if (this.fetching) return;
    this.fetching = true;
    const blocks = [...new Set(ids.map((id) => id >> 9))].slice(0, 24);
    Promise.all(blocks.map((block) => this.fetchName(block << 9))).then(() => this.draw(), () => {}).finally(() => { this.fetching = false; });
  }

  // --- which point is where

  /** Points by cell of a grid: counted, then dealt into one array. */
  index() {
    const count = this.points.length / 2, starts = new Uint32Array(GRID * GRID + 1), cells = new Uint16Array(count);
    for (let id = 0; id < count; id += 1) {
      cells[id] = cell(this.points[2 * id]) + GRID * cell(this.points[2 * id + 1]);
      starts[cells[id] + 1] += 1;
    }
    for (let i = 0; i < GRID * GRID; i += 1) starts[i + 1] += starts[i];
    const next = starts.slice(), ids = new Uint32Array(count);
    for (let id = 0; id < count; id += 1) ids[next[cells[id]]++] = id;
    this.cells = { starts, ids };
  }

  /** Ids in sight; null if there are more than `most`. */
  inSight(most) {
    const low = this.toPlane({ x: 0, y: this.height }), high = this.toPlane({ x: this.width, y: 0 });
    const found = [];
    for (let row = cell(low.y); row <= cell(high.y); row += 1) {
      const { starts, ids } = this.cells;
      for (let i = starts[row * GRID + cell(low.x)]; i < starts[row * GRID + cell(high.x) + 1]; i += 1) {
        const id = ids[i], x = this.points[2 * id], y = this.points[2 * id + 1];
        if (x >= low.x && x <= high.x && y >= low.y && y <= high.y) found.push(id);
        if (found.length > most) return null;
      }
    }
    return found.sort((a, b) => a - b);
  }

  nearest(at) {
    if (!this.cells) return null;
    const reach = NEAR / this.unit, here = this.toPlane(at), { starts, ids } = this.cells;
    let best = null, least = reach * reach;
    for (let row = cell(here.y - reach); row <= cell(here.y + reach); row += 1) {
      for (let i = starts[row * GRID + cell(here.x - reach)]; i < starts[row * GRID + cell(here.x + reach) + 1]; i += 1) {
        const id = ids[i], dx = this.points[2 * id] - here.x, dy = this.points[2 * id + 1] - here.y, far = dx * dx + dy * dy;
        if (far < least && (this.chosen < 0 || this.groups?.[id] === this.chosen)) [best, least] = [id, far];
      }
    }
    return best;
  }

  // --- hands

  listen() {
    const { canvas, signal } = this, on = (name, act, options = {}) => canvas.addEventListener(name, act, { signal, ...options });
    const place = (event) => { const box = canvas.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
    const fingers = new Map();
    let moved = 0;
    on("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, place(event)); moved = 0; });
    on("pointermove", (event) => {
      const now = place(event), before = fingers.get(event.pointerId);
      if (!before) return this.point(now);
      if (fingers.size === 2) this.pinch(fingers, event.pointerId, now);
      else {
        this.view.x -= (now.x - before.x) / this.unit;
        this.view.y += (now.y - before.y) / this.unit;
      }
      moved += Math.hypot(now.x - before.x, now.y - before.y);
      fingers.set(event.pointerId, now);
      this.draw();
    });
    on("pointerup", (event) => {
      fingers.delete(event.pointerId);
      const id = moved < 5 ? this.nearest(place(event)) : null;
      if (id !== null) this.open(id);
    });
    on("pointercancel", (event) => fingers.delete(event.pointerId));
    on("pointerleave", () => this.point(null));
    on("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), place(event)); }, { passive: false });
    on("dblclick", (event) => this.zoom(2, place(event)));
    on("keydown", (event) => {
      const step = 0.2 / this.view.zoom, ways = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      if (ways[event.key]) [this.view.x, this.view.y] = [this.view.x + ways[event.key][0], this.view.y + ways[event.key][1]];
      else if (event.key === "+" || event.key === "=") this.zoom(1.5);
      else if (event.key === "-") this.zoom(1 / 1.5);
      else if (event.key === "0") this.reset();
      else return;
      event.preventDefault();
      this.draw();
    });
    const watch = new ResizeObserver(() => this.draw());
    watch.observe(canvas);
    addEventListener("theme", () => this.draw(), { signal });
    signal.addEventListener("abort", () => { watch.disconnect(); this.gl?.getExtension("WEBGL_lose_context")?.loseContext(); });
  }

  point(at) {
    this.hovered = at ? this.nearest(at) : null;
    this.canvas.style.cursor = this.hovered === null ? "grab" : "pointer";
    this.hover(this.hovered, this.hovered === null ? null : this.toScreen(this.hovered));
  }

  pinch(fingers, id, now) {
    const [other] = [...fingers].filter(([key]) => key !== id).map(([, value]) => value), before = fingers.get(id);
    const gap = (a, b) => Math.max(10, Math.hypot(a.x - b.x, a.y - b.y));
    this.zoom(gap(now, other) / gap(before, other), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
  }
}

/** Whether WebGL is drawn by a graphics card and not by a program that stands in for one. */
function hasCard() {
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  const told = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = told ? gl.getParameter(told.UNMASKED_RENDERER_WEBGL) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return Boolean(gl) && !/swiftshader|llvmpipe|software|basic render/i.test(name);
}

/** How much of each pixel a disc covers, 0 to 256. */
function disc(size) {
  const side = Math.ceil(size) + 1, cover = new Uint16Array(side * side);
  for (let i = 0; i < cover.length; i += 1) {
    const far = Math.hypot((i % side) + 0.5 - side / 2, Math.floor(i / side) + 0.5 - side / 2);
    cover[i] = 256 * Math.max(0, Math.min(1, size / 2 - far + 0.5));
  }
  return { side, cover };
}

function blended(below, above, alpha) {
  const rest = 256 - alpha;
  const outer = (((above & 0xff00ff) * alpha + (below & 0xff00ff) * rest) >>> 8) & 0xff00ff;
  return (0xff000000 | outer | ((((above & 0xff00) * alpha + (below & 0xff00) * rest) >>> 8) & 0xff00)) >>> 0;
}

/** A colour as a pixel: little-endian RGBA. */
function packed(colour) {
  const [r, g, b] = colour.startsWith("#")
    ? [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)) : colour.match(/[\d.]+/g).map(Number);
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

const PACKED = COLOURS.map(packed), GREY = packed("#8a8f98");

function cell(value) {
  return Math.max(0, Math.min(GRID - 1, Math.floor(((value + 1) / 2) * GRID)));
}

function shortened(text) {
  return text.length > 26 ? text.slice(0, 25) + "…" : text;
}

// A scatter plot with pan, zoom and hover, fluid for a hundred thousand points. Drawn by WebGL on a graphics card;
// without one, into an array of pixels, which is several times faster than WebGL in software.

import { COLOURS, NO_GROUP, NO_GROUP_COLOUR } from "./format.js";

const GRID_SIDE = 128; // cells per side of the grid that finds points by position
const HOVER_PIXELS = 14; // largest distance of the pointer to the point it selects
const MAX_LABELS = 70;
const MAX_CANDIDATES = 3 * MAX_LABELS; // visible points above which a part of them is labelled
const MAX_NAMED = 24 * 512; // entities whose names may be fetched for that
const DIMMED_ALPHA = 0.10, ALPHA = 0.82;

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
  vec3 own = group < 65535.0 ? palette[int(mod(group, ${COLOURS.length}.0))] : vec3(0.54, 0.56, 0.6);
  bool dim = only >= 0.0 && group != only;
  colour = vec4(own, dim ? ${DIMMED_ALPHA} : ${ALPHA});
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

export class Scatter {
  /** name(id): the name, or null if it is not fetched yet; fetchName(id): a promise of it. */
  constructor(canvas, labels, { signal, name, fetchName, open, hover }) {
    Object.assign(this, { canvas, labels, name, fetchName, open, hover, signal });
    this.points = new Float32Array(0);
    this.groups = null;
    this.selected = -1;
    this.hovered = null;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.drawing = 0;
    this.prepare();
    this.listen();
  }

  // --- data and view

  /** Set the coordinates: x and y of each point, from −1 to 1. */
  place(points) {
    this.points = points;
    this.index();
    const gl = this.gl;
    if (gl) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.pointBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
      if (!this.groups) this.colour(new Uint16Array(points.length / 2).fill(NO_GROUP));
    }
    this.draw();
  }

  /** Set the group of each point. */
  colour(groups) {
    this.groups = groups;
    const gl = this.gl;
    if (gl) {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.groupBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, groups, gl.STATIC_DRAW);
    }
    this.draw();
  }

  /** Dim all groups but one; null: none. */
  select(group) {
    this.selected = group === null ? -1 : group;
    this.draw();
  }

  zoom(factor, at = { x: this.width / 2, y: this.height / 2 }) {
    const before = this.toData(at);
    this.view.zoom = Math.max(0.5, Math.min(400, this.view.zoom * factor));
    const after = this.toData(at);
    this.view.x += before.x - after.x;
    this.view.y += before.y - after.y;
    this.draw();
  }

  reset() {
    this.view = { x: 0, y: 0, zoom: 1 };
    this.draw();
  }

  // --- data coordinates and pixels

  /** Pixels per unit of the coordinates. */
  get unit() {
    return 0.46 * Math.min(this.width, this.height) * this.view.zoom;
  }

  toData({ x, y }) {
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
    const gl = (this.gl = hasGraphicsCard() ? this.canvas.getContext("webgl2", { antialias: false }) : null);
    if (!gl) {
      this.context = this.canvas.getContext("2d", { alpha: false });
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
    this.uniforms = Object.fromEntries(["scale", "shift", "size", "only", "palette"].map((name) => [name, gl.getUniformLocation(program, name)]));
    const buffer = (name, size, kind) => {
      const created = gl.createBuffer(), location = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, created);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, size, kind, false, 0, 0);
      return created;
    };
    this.pointBuffer = buffer("point", 2, gl.FLOAT);
    this.groupBuffer = buffer("group", 1, gl.UNSIGNED_SHORT);
    gl.uniform3fv(this.uniforms.palette, COLOURS.flatMap((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)));
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
    const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    for (const canvas of [this.canvas, this.labels]) {
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    }
    this.ratio = ratio;
  }

  paint() {
    this.measure();
    const count = this.points.length / 2;
    if (!count || !this.width) return;
    const size = this.ratio * Math.max(2, Math.min(12, (11 - 1.7 * Math.log10(count)) * this.view.zoom ** 0.3));
    if (this.gl) this.paintWebgl(count, size);
    else this.paintPixels(count, size);
    this.label();
  }

  paintWebgl(count, size) {
    const gl = this.gl, x = (2 * this.unit) / this.width, y = (2 * this.unit) / this.height;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniforms.scale, x, y);
    gl.uniform2f(this.uniforms.shift, -this.view.x * x, -this.view.y * y);
    gl.uniform1f(this.uniforms.size, size);
    gl.uniform1f(this.uniforms.only, this.selected);
    gl.drawArrays(gl.POINTS, 0, count);
  }

  /** Without a graphics card: discs blended into an array of pixels. */
  paintPixels(count, size) {
    const { width, height } = this.canvas, ratio = this.ratio, groups = this.groups, points = this.points;
    if (this.image?.width !== width || this.image?.height !== height) this.image = this.context.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer), { side, cover } = disc(size);
    pixels.fill(packed(getComputedStyle(this.canvas.parentElement).backgroundColor));
    const unit = this.unit * ratio, x0 = width / 2 - this.view.x * unit - side / 2, y0 = height / 2 + this.view.y * unit - side / 2;
    for (let id = 0; id < count; id += 1) {
      const x = Math.round(x0 + points[2 * id] * unit), y = Math.round(y0 - points[2 * id + 1] * unit);
      if (x < 0 || y < 0 || x + side > width || y + side > height) continue;
      const group = groups ? groups[id] : NO_GROUP, colour = group === NO_GROUP ? PACKED_NO_GROUP : PACKED[group % PACKED.length];
      const alpha = 256 * (this.selected >= 0 && group !== this.selected ? DIMMED_ALPHA : ALPHA);
      for (let row = 0, i = 0; row < side; row += 1) {
        for (let pixel = (y + row) * width + x, stop = pixel + side; pixel < stop; pixel += 1, i += 1) {
          const own = (cover[i] * alpha) >> 8;
          if (own) pixels[pixel] = blended(pixels[pixel], colour, own);
        }
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** Draw names of visible points; a name that would overlap another is left out. */
  label() {
    const context = this.labels.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const visible = this.visible(MAX_CANDIDATES);
    if (visible.some((id) => this.name(id) === null)) {
      this.fetchNames(visible);
      return;
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = getComputedStyle(this.canvas).color;
    const taken = [];
    for (const id of visible) {
      if (this.selected >= 0 && this.groups?.[id] !== this.selected) continue;
      const { x, y } = this.toScreen(id), text = shortened(this.name(id));
      const box = [x + 6, y - 8, x + 10 + context.measureText(text).width, y + 8];
      if (box[2] > this.width || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      taken.push(box);
      context.fillText(text, x + 8, y + 4);
      if (taken.length >= MAX_LABELS) break;
    }
  }

  fetchNames(ids) {
    if (this.fetching) return;
    this.fetching = true;
    const blocks = [...new Set(ids.map((id) => id >> 9))].slice(0, 24);
    Promise.all(blocks.map((block) => this.fetchName(block << 9))).then(() => this.draw(), () => {}).finally(() => { this.fetching = false; });
  }

  // --- points by position

  /** Sort the points by cell of the grid (counting sort). */
  index() {
    const count = this.points.length / 2, starts = new Uint32Array(GRID_SIDE * GRID_SIDE + 1), cells = new Uint16Array(count);
    for (let id = 0; id < count; id += 1) {
      cells[id] = cell(this.points[2 * id]) + GRID_SIDE * cell(this.points[2 * id + 1]);
      starts[cells[id] + 1] += 1;
    }
    for (let i = 0; i < GRID_SIDE * GRID_SIDE; i += 1) starts[i + 1] += starts[i];
    const next = starts.slice(), ids = new Uint32Array(count);
    for (let id = 0; id < count; id += 1) ids[next[cells[id]]++] = id;
    this.cells = { starts, ids };
  }

  /** Ids of the visible points; if there are more, about `most` of them, the same ones wherever the view moves. */
  visible(most) {
    const low = this.toData({ x: 0, y: this.height }), high = this.toData({ x: this.width, y: 0 });
    const found = [];
    for (let row = cell(low.y); row <= cell(high.y); row += 1) {
      const { starts, ids } = this.cells;
      for (let i = starts[row * GRID_SIDE + cell(low.x)]; i < starts[row * GRID_SIDE + cell(high.x) + 1]; i += 1) {
        const id = ids[i], x = this.points[2 * id], y = this.points[2 * id + 1];
        if (x >= low.x && x <= high.x && y >= low.y && y <= high.y) found.push(id);
      }
    }
    const share = most / found.length, some = share < 1 ? found.filter((id) => id < MAX_NAMED && shuffled(id) < share) : found;
    return some.sort((a, b) => a - b);
  }

  /** Id of the point nearest to a position on the screen; null if none is near. */
  nearest(at) {
    if (!this.cells) return null;
    const reach = HOVER_PIXELS / this.unit, here = this.toData(at), { starts, ids } = this.cells;
    let best = null, bestSquare = reach * reach;
    for (let row = cell(here.y - reach); row <= cell(here.y + reach); row += 1) {
      for (let i = starts[row * GRID_SIDE + cell(here.x - reach)]; i < starts[row * GRID_SIDE + cell(here.x + reach) + 1]; i += 1) {
        const id = ids[i], dx = this.points[2 * id] - here.x, dy = this.points[2 * id + 1] - here.y, square = dx * dx + dy * dy;
        if (square < bestSquare && (this.selected < 0 || this.groups?.[id] === this.selected)) [best, bestSquare] = [id, square];
      }
    }
    return best;
  }

  // --- pointer and keyboard

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

/** Whether a graphics card draws WebGL, and not a software renderer. */
function hasGraphicsCard() {
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  const info = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return Boolean(gl) && !/swiftshader|llvmpipe|software|basic render/i.test(name);
}

/** Coverage of each pixel by a disc, from 0 to 256. */
function disc(size) {
  const side = Math.ceil(size) + 1, cover = new Uint16Array(side * side);
  for (let i = 0; i < cover.length; i += 1) {
    const distance = Math.hypot((i % side) + 0.5 - side / 2, Math.floor(i / side) + 0.5 - side / 2);
    cover[i] = 256 * Math.max(0, Math.min(1, size / 2 - distance + 0.5));
  }
  return { side, cover };
}

function blended(below, above, alpha) {
  const rest = 256 - alpha;
  const outer = (((above & 0xff00ff) * alpha + (below & 0xff00ff) * rest) >>> 8) & 0xff00ff;
  return (0xff000000 | outer | ((((above & 0xff00) * alpha + (below & 0xff00) * rest) >>> 8) & 0xff00)) >>> 0;
}

/** A CSS colour as a pixel: little-endian RGBA. */
function packed(colour) {
  const [r, g, b] = colour.startsWith("#")
    ? [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)) : colour.match(/[\d.]+/g).map(Number);
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

const PACKED = COLOURS.map(packed), PACKED_NO_GROUP = packed(NO_GROUP_COLOUR);

/** Row or column of the grid. */
function cell(value) {
  return Math.max(0, Math.min(GRID_SIDE - 1, Math.floor(((value + 1) / 2) * GRID_SIDE)));
}

/** A number from 0 to 1 that spreads consecutive ids evenly. */
function shuffled(id) {
  return (Math.imul(id + 1, 0x9e3779b1) >>> 0) / 2 ** 32;
}

function shortened(text) {
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}

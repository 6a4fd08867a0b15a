"use strict";
// A timeline with zoom, by mouse, fingers and keyboard.

/// An element with its attributes, and its children: texts and elements.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/// 1, 2 or 5 times a power of ten, and at least `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least * (1 - 1e-9));
}

const plainNumber = (value) => String(Number(value.toPrecision(5)));

/// Draws into `element`, and returns a function that draws other data there. The data:
///   unit, row               what follows a time ("ms"), and precedes the label of a row ("rank")
///   kinds                   [{name, colour, thin}]: how spans look
///   groups                  [{title, rows: [{label, spans}]}], with spans [begin, end, index of the kind, text, name],
///                           those that hold others first
function drawTimeline(element, data) {
  const left = 30, titleHeight = 24, rowHeight = 22, axisHeight = 40;
  const canvas = make("canvas", {tabindex: 0, role: "img"});
  const readout = make("output", {class: "readout"});
  const legend = make("div", {class: "legend"});
  const buttons = make("div", {class: "buttons"});
  element.classList.add("timeline");
  element.append(legend, buttons, canvas, readout);
  let lines = [];  // {y, title} or {y, row}
  let end = 1, from = 0, to = 1, selected = null, isDue = false;

  const width = () => Math.max(canvas.clientWidth - left - 8, 1);
  const timeAt = (x) => from + ((x - left) / width()) * (to - from);

  function setView(begin, length) {
    length = Math.min(Math.max(length, end * 1e-5), end);
    from = Math.min(Math.max(begin, 0), end - length);
    to = from + length;
    canvas.dataset.from = from;
    canvas.dataset.to = to;
    drawSoon();
  }
  /// The time at x stays where it is.
  const zoom = (factor, x = left + width() / 2) =>
    setView(timeAt(x) - ((x - left) / width()) * (to - from) * factor, (to - from) * factor);
  const move = (share) => setView(from + share * (to - from), to - from);
  const actions = {
    "zoom in": ["+", () => zoom(1 / 1.5)], "zoom out": ["\u2212", () => zoom(1.5)], "to the left": ["\u2190", () => move(-0.2)],
    "to the right": ["\u2192", () => move(0.2)], "show all": ["all", () => setView(0, end)],
  };
  for (const [name, [sign, act]] of Object.entries(actions)) {
    const button = make("button", {type: "button", "aria-label": name, title: name}, sign);
    button.addEventListener("click", act);
    buttons.append(button);
  }
  const keys = {"+": "zoom in", "=": "zoom in", "-": "zoom out", ArrowLeft: "to the left", ArrowRight: "to the right",
                "0": "show all", Home: "show all"};
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    actions[keys[event.key]][1]();
    event.preventDefault();
  });

  function drawSoon() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => { isDue = false; draw(); });
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const [ink, faint, line, paper, panel] =
      ["--ink", "--faint", "--line", "--paper", "--panel"].map((name) => style.getPropertyValue(name).trim());
    const height = lines.at(-1).y + rowHeight + axisHeight;
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.textBaseline = "middle";
    const font = (size, weight = "") => { pen.font = `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`; };
    const x = (time) => left + ((time - from) / (to - from)) * width();
    drawAxis(pen, x, height - axisHeight, font, line, faint);
    for (const {y, title, row} of lines) {
      font(title ? 13 : 12, title ? "bold" : "");
      pen.textAlign = title ? "left" : "right";
      pen.fillStyle = title ? ink : faint;
      pen.fillText(title ?? row.label, title ? 0 : left - 6, y + (title ? titleHeight : rowHeight) / 2, canvas.clientWidth);
      if (title) continue;
      pen.fillStyle = panel;
      pen.fillRect(left, y + 1, width(), rowHeight - 2);
      pen.save();
      pen.beginPath();
      pen.rect(left, y, width(), rowHeight);
      pen.clip();
      font(11);
      pen.textAlign = "center";
      for (const span of row.spans) drawSpan(pen, span, x, y, paper, ink);
      pen.fillStyle = "#111111";
      for (const span of row.spans) drawText(pen, span, x, y);
      pen.restore();
    }
  }

  function drawAxis(pen, x, bottom, font, line, faint) {
    const step = roundStep(((to - from) * 70) / width());
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    font(12);
    pen.textAlign = "center";
    for (let i = Math.ceil(from / step); i * step <= to * (1 + 1e-9); ++i) {
      pen.fillStyle = line;
      pen.fillRect(x(i * step), 0, 1, bottom + 4);
      pen.fillStyle = faint;
      pen.fillText((i * step).toFixed(digits), Math.min(x(i * step), canvas.clientWidth - 14), bottom + 13);
    }
    pen.fillText(`time${data.unit && ` (${data.unit})`}`, left + width() / 2, bottom + 30);
  }

  function drawSpan(pen, span, x, y, paper, ink) {
    const [begin, stop, kind] = span;
    if (stop < from || begin > to) return;
    const {colour, thin} = data.kinds[kind];
    const x0 = Math.max(x(begin), left - 2), x1 = Math.min(x(stop), left + width() + 2);
    const [top, tall] = thin ? [y + 7, rowHeight - 14] : [y + 1, rowHeight - 2];
    pen.fillStyle = colour;
    pen.fillRect(x0, top, Math.max(x1 - x0, 0.5), tall);
    if (x1 - x0 > 3 && (!thin || span === selected)) {
      pen.strokeStyle = span === selected ? ink : paper;
      pen.lineWidth = span === selected ? 2 : 0.7;
      pen.strokeRect(x0, top, x1 - x0, tall);
    }
  }

  /// Over the part of the span that can be seen, if there is room.
  function drawText(pen, [begin, stop, , text], x, y) {
    const x0 = Math.max(x(begin), left), x1 = Math.min(x(stop), left + width());
    if (text && x1 - x0 > 5 + 7 * text.length) pen.fillText(text, (x0 + x1) / 2, y + rowHeight / 2 + 0.5);
  }

  /// Says what is under the pointer.
  function look(event) {
    const row = lines.find((line) => line.row && event.offsetY >= line.y && event.offsetY < line.y + rowHeight);
    const time = timeAt(event.offsetX), near = ((to - from) / width()) * 2;
    const span = row?.row.spans.findLast(([begin, stop]) => begin - near <= time && time <= stop + near) ?? null;
    if (span === selected) return;
    selected = span;
    if (span) {
      const [begin, stop, kind, , name] = span;
      const times = `${plainNumber(begin)} to ${plainNumber(stop)}${data.unit && ` ${data.unit}`}`;
      readout.textContent =
        `${data.row} ${row.row.label}: ${name}, ${data.kinds[kind].name}, ${times} (${plainNumber(stop - begin)})`;
    }
    drawSoon();
  }

  const pointers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event.offsetX);
    look(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) return look(event);
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    pointers.set(event.pointerId, event.offsetX);
    if (others.length === 0) return setView(from - ((event.offsetX - before) / width()) * (to - from), to - from);
    const apart = Math.abs(event.offsetX - others[0]);
    if (apart > 5) zoom(Math.abs(before - others[0]) / apart, others[0]);
  });
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("dblclick", (event) => zoom(1 / 2, event.offsetX));
  // A wheel alone scrolls the page. Browsers report two fingers on a touchpad as a wheel with ctrl.
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.shiftKey) {
      zoom(1.002 ** (event.deltaY || event.deltaX), event.offsetX);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      move(event.deltaX / width());
    } else {
      return;
    }
    event.preventDefault();
  }, {passive: false});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
  new ResizeObserver(drawSoon).observe(canvas);

  function show(newData) {
    data = newData;
    lines = [];
    selected = null;
    readout.textContent = "Point at a span, or tap it. Drag to move. Zoom: + and \u2212, two fingers, or Ctrl and the wheel.";
    const seen = new Set();
    let y = 0;
    end = 0;
    for (const {title, rows} of data.groups) {
      if (title) {
        lines.push({y, title});
        y += titleHeight;
      }
      for (const row of rows) {
        lines.push({y, row});
        y += rowHeight;
        for (const [, stop, kind] of row.spans) {
          end = Math.max(end, stop);
          seen.add(kind);
        }
      }
    }
    legend.replaceChildren(...data.kinds.flatMap(({name, colour}, kind) =>
      seen.has(kind) ? [make("span", {style: `--colour: ${colour}`}, name)] : []));
    const titles = data.groups.map((group) => group.title).filter(Boolean).join(", ");
    canvas.setAttribute("aria-label", `Timeline${titles && ` of ${titles}`}: arrow keys move, + and - zoom, 0 shows all`);
    end = end || 1;
    setView(0, end);
  }
  show(data);
  return show;
}

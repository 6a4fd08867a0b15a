"use strict";
// The page of `heddle schedule --html`: picture and figures of a schedule for the settings that the reader chooses.
const data = JSON.parse(document.getElementById("schedules").textContent);
const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * Math.abs(share)).toFixed(2)} %`;
const settings = {schedule: "1f1b", p: 4, m: 8, v: 2, forward: 1, input: 1, weight: 1, transfer: 0};
const inputs = {};
let draw = null;

function addSlider(name, label, min, max, step) {
  const input = make("input", {type: "range", min, max, step, value: settings[name], name});
  const output = make("output", {}, String(settings[name]));
  input.addEventListener("input", () => {
    settings[name] = Number(input.value);
    output.textContent = input.value;
    update();
  });
  inputs[name] = make("label", {}, label, output, input);
  byId("controls").append(inputs[name]);
}

function choose(name) {
  settings.schedule = name;
  inputs.schedule.querySelector("select").value = name;
  update();
}

const typeOf = (name) => data.schedules.find((type) => type.name === name);
/// The number of chunks of a schedule that is nearest to the chosen one.
const chunksOf = (type) => Math.min(Math.max(settings.v, type.min_chunks), type.max_chunks);
const shapeOf = (type) => type.shapes[`${settings.p} ${settings.m} ${chunksOf(type)}`];
/// A text that begins with ! says why there is no such schedule.
const simulated = (text) => (text[0] === "!" ? null : simulate(readSchedule(text, settings.m), settings));

function fillTable(table, head, rows) {
  const row = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));
  table.replaceChildren(make("thead", {}, row(head, "th")), make("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
}

function showFigures(result) {
  const most = (key) => plainNumber(Math.max(...result.ranks.map((own) => own[key])));
  const named = {
    makespan: plainNumber(result.makespan), "span bubble": percent(result.spanBubble), idle: percent(result.idle),
    "peak activations": most("peakActivations"), "peak with weight inputs": most("peak"),
  };
  byId("figures").replaceChildren(
    ...Object.entries(named).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  fillTable(byId("ranks"), ["rank", "activations", "weight inputs", "together", "busy"], result.ranks.map((own, rank) => [
    String(rank), plainNumber(own.peakActivations), plainNumber(own.peakWeightInputs), plainNumber(own.peak),
    percent(result.makespan > 0 ? result.busy[rank] / result.makespan : 1)]));
}

function showPicture(result, rankOf) {
  const chunkOf = rankOf.map((rank, stage) => rankOf.slice(0, stage).filter((r) => r === rank).length);
  const rows = result.ranks.map(({spans}, rank) => ({
    label: String(rank),
    spans: spans.filter(({begin, end}) => end > begin).map(({kind, stage, microBatch, begin, end}) =>
      [begin, end, "FBIW".indexOf(kind) + 4 * (chunkOf[stage] % 2), String(microBatch), `${stage}${kind}${microBatch}`]),
  }));
  const picture = {unit: "", row: "rank", kinds: data.kinds, groups: [{title: "", rows}]};
  if (draw) draw(picture);
  else draw = drawTimeline(byId("picture"), picture);
}

function compareAll() {
  const results = data.schedules.map((type) => ({type, result: simulated(shapeOf(type))}));
  const end = ({result}) => result?.makespan ?? Infinity;
  results.sort((a, b) => (end(a) === end(b) ? 0 : end(a) - end(b)));
  fillTable(byId("all"), ["schedule", "v", "makespan", "span bubble", "idle", "peak"], results.map(({type, result}) => {
    const button = make("button", {type: "button"}, type.name);
    button.addEventListener("click", () => choose(type.name));
    if (!result) return [button, String(chunksOf(type)), "-", "-", "-", "-"];
    const peak = Math.max(...result.ranks.map((own) => own.peak));
    return [button, String(chunksOf(type)), plainNumber(result.makespan), percent(result.spanBubble), percent(result.idle),
            plainNumber(peak)];
  }));
  results.forEach(({type}, i) => {
    if (type.name === settings.schedule) byId("all").tBodies[0].rows[i].setAttribute("aria-current", "true");
  });
}

function update() {
  const type = typeOf(settings.schedule), text = shapeOf(type), result = simulated(text);
  for (const id of ["figures", "picture", "ranks"]) byId(id).hidden = !result;
  byId("description").textContent =
    `${type.name} with v = ${chunksOf(type)}: ${type.description}.` + (result ? "" : ` There is none here: ${text.slice(1)}.`);
  const {p, m, forward, input, weight, transfer} = settings;
  const chunks = type.min_chunks === type.max_chunks ? "" : ` --chunks ${chunksOf(type)}`;
  byId("command").textContent = `./heddle schedule ${type.name} --stages ${p} --micro-batches ${m}${chunks} ` +
    `--costs ${[forward, input, weight, transfer].join(",")}`;
  if (result) {
    showFigures(result);
    showPicture(result, readSchedule(text, m).rankOf);
  }
  compareAll();
}

const select = make("select", {name: "schedule"}, ...data.schedules.map(({name}) => make("option", {value: name}, name)));
select.addEventListener("change", () => choose(select.value));
inputs.schedule = make("label", {}, "schedule", select);
byId("controls").append(inputs.schedule);
addSlider("p", "p: ranks", 1, data.max_ranks, 1);
addSlider("m", "m: micro-batches", 1, data.max_micro_batches, 1);
addSlider("v", "v: stages per rank, where a schedule takes several", 1, data.max_chunks, 1);
addSlider("forward", "F: time of a forward pass", 0.25, 4, 0.25);
addSlider("input", "I: time of a backward pass's input part", 0, 4, 0.25);
addSlider("weight", "W: time of a backward pass's weight part", 0, 4, 0.25);
addSlider("transfer", "c: time of a message between ranks", 0, 2, 0.05);
choose(settings.schedule);

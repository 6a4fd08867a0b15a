"use strict";
// Simulates a pipeline schedule by the rules of parallel/pipeline/dependencies.h and simulation.h: each rank executes
// its list in order, and an action begins when the one before it has ended and its input has arrived.

/// The lists that schedule_text (experiments/program/schedule/playground.h) wrote:
/// {microBatches, rankOf: [rank of stage 0, ..], ranks: [[{kind, stage, microBatch, overlapsNext}, ..], ..]}.
function readSchedule(text, microBatches) {
  const letters = "FBIWfbiwGCJXgcjx";  // four for each chunk of a rank
  const [stages, ...lists] = text.split("|");
  const rankOf = [...stages].map(Number);
  const ranks = lists.map((list, rank) => {
    const own = rankOf.flatMap((r, stage) => (r === rank ? [stage] : []));
    // Within a stage, actions of a kind are in the order of the micro-batches: a W belongs to the first I without one.
    const done = rankOf.map(() => ({F: 0, B: 0, I: []}));
    return unpack(list).map((token) => {
      const index = letters.indexOf(token.at(-1));
      const kind = "FBIW"[index % 4], stage = own[Math.floor(index / 4)];
      const counts = done[stage];
      const microBatch = kind === "F" ? counts.F++ : kind === "W" ? counts.I.shift() : counts.B++;
      if (kind === "I") counts.I.push(microBatch);
      return {kind, stage, microBatch, overlapsNext: token[0] === "&"};
    });
  });
  return {microBatches, rankOf, ranks};
}

/// `F2(&FB)3` as the list F F &F B &F B &F B.
function unpack(text) {
  const tokens = [];
  for (const [, group, single, count] of text.matchAll(/(?:\(([^)]*)\)|(&?[A-Za-z]))(\d*)/g)) {
    const part = (group ?? single).match(/&?[A-Za-z]/g);
    for (let i = 0; i < Number(count || 1); ++i) tokens.push(...part);
  }
  return tokens;
}

/// `costs`: forward, input, weight and transfer, those of a micro-batch on a whole rank, whose stages share them.
function simulate({microBatches, rankOf, ranks}, costs) {
  const last = rankOf.length - 1;
  const share = ranks.map((_, rank) => 1 / rankOf.filter((r) => r === rank).length);
  const seconds = {F: costs.forward, B: costs.input + costs.weight, I: costs.input, W: costs.weight};
  const times = () => rankOf.map(() => Array(microBatches));  // undefined: not yet
  const inputAt = times(), forwardDone = times(), gradientAt = times(), inputDone = times();
  inputAt[0].fill(0);

  const ready = ({kind, stage, microBatch: i}) => {
    if (kind === "F") return inputAt[stage][i] !== undefined;
    if (kind === "W") return inputDone[stage][i] !== undefined;
    return forwardDone[stage][i] !== undefined && gradientAt[stage][i] !== undefined;
  };
  const arrival = ({kind, stage, microBatch: i}) =>
    kind === "F" ? inputAt[stage][i] : kind === "W" ? 0 : gradientAt[stage][i];
  const arrive = (at, fromStage, toStage, i, time) => {
    at[toStage][i] = time + (rankOf[fromStage] === rankOf[toStage] ? 0 : costs.transfer);
  };
  const give = ({kind, stage, microBatch: i}, time) => {
    if (kind === "F") {
      forwardDone[stage][i] = time;
      if (stage < last) arrive(inputAt, stage, stage + 1, i, time);
      else gradientAt[stage][i] = time;
    } else if (kind !== "W") {
      inputDone[stage][i] = time;
      if (stage > 0) arrive(gradientAt, stage, stage - 1, i, time);
    }
  };

  const state = ranks.map(() => ({next: 0, free: 0, spans: [], activations: 0, weightInputs: 0,
                                  peakActivations: 0, peakWeightInputs: 0, peak: 0}));
  const hold = (own, activations, weightInputs) => {
    own.activations += activations;
    own.weightInputs += weightInputs;
    own.peakActivations = Math.max(own.peakActivations, own.activations);
    own.peakWeightInputs = Math.max(own.peakWeightInputs, own.weightInputs);
    own.peak = Math.max(own.peak, own.activations + own.weightInputs);
  };
  const execute = (own, action, part) => {
    const begin = Math.max(own.free, arrival(action));
    own.free = begin + seconds[action.kind] * part;
    own.spans.push({...action, begin, end: own.free});
    if (action.kind === "F") hold(own, part, 0);
    if (action.kind === "B") hold(own, -part, 0);
    if (action.kind === "I") hold(own, -part, part);
    if (action.kind === "W") hold(own, 0, -part);
  };
  for (let moved = true; moved;) {
    moved = false;
    ranks.forEach((list, rank) => {
      const own = state[rank];
      while (own.next < list.length) {
        let end = own.next + 1;  // after the actions that begin together
        while (end < list.length && list[end - 1].overlapsNext) ++end;
        const together = list.slice(own.next, end);
        if (!together.every(ready)) return;
        for (const action of together) execute(own, action, share[rank]);
        for (const action of together) give(action, own.free);
        own.next = end;
        moved = true;
      }
    });
  }
  if (state.some((own, rank) => own.next < ranks[rank].length)) throw Error("the schedule cannot be executed");
  return {ranks: state, ...figures(state)};
}

/// Makespan and bubbles, as parallel/pipeline/timeline.h defines them.
function figures(state) {
  const busy = state.map(({spans}) => spans.reduce((sum, {begin, end}) => sum + (end - begin), 0));
  const lengths = state.map(({spans}) => spans.at(-1).end - spans[0].begin);
  const makespan = Math.max(...state.map(({free}) => free)) - Math.min(...state.map(({spans}) => spans[0].begin));
  const all = state.length * makespan;
  return {
    makespan, busy,
    idle: all > 0 ? 1 - busy.reduce((sum, each) => sum + each, 0) / all : 0,
    spanBubble: Math.max(...lengths) > 0 ? 1 - Math.max(...busy) / Math.max(...lengths) : 0,
  };
}

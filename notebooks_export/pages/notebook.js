"use strict";
// The page of a results folder: a still timeline becomes one with zoom, and remains below it, folded up.
for (const element of document.querySelectorAll(".heddle-timeline")) {
  const data = JSON.parse(element.querySelector("script").textContent);
  const still = make("details", {}, make("summary", {}, "As a figure"), element.querySelector("figure"));
  const drawn = make("div");
  element.replaceChildren(drawn, still);
  drawTimeline(drawn, data);
}

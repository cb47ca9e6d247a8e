"use strict";
// shows the title of a mark at once, for touch and keyboard too, where browsers show none
const tip = document.getElementById("tip");
const show = (event) => {
  const title = event.target.closest ? event.target.closest("svg *")?.querySelector(":scope > title") : null;
  tip.hidden = !title;
  if (!title) return;
  tip.textContent = title.textContent;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.width - 4)) + "px";
  tip.style.top = Math.max(4, event.clientY - box.height - 12) + "px";
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
// a legend entry dims and brings back its curve
document.querySelectorAll("[data-curve]").forEach((entry) => {
  const toggle = () => {
    const off = entry.getAttribute("aria-pressed") === "true";
    entry.setAttribute("aria-pressed", String(!off));
    entry.style.opacity = off ? 0.35 : 1;
    const chart = entry.closest("svg");
    chart.querySelectorAll(".curve").forEach((curve) => {
      if (curve.dataset.of === entry.dataset.curve) curve.style.display = off ? "none" : "";
    });
  };
  entry.addEventListener("click", toggle);
  entry.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
  });
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));

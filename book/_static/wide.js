// Formulas that are wider than the page scroll by themselves. This gives them the keyboard as well.
"use strict";

const markWide = () => {
  for (const formula of document.querySelectorAll(".bd-article mjx-container")) {
    formula.classList.remove("wide");
    const isDisplay = formula.hasAttribute("display");
    const room = isDisplay ? formula : formula.parentElement.closest("p, li, dd, td, div, h1, h2, h3");
    const width = isDisplay ? formula.scrollWidth : formula.getBoundingClientRect().width;
    const isWide = room !== null && width > room.clientWidth + 1;
    formula.classList.toggle("wide", isWide);
    if (isWide) formula.tabIndex = 0;
    else formula.removeAttribute("tabindex");
  }
};

window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  const article = document.querySelector(".bd-article");
  if (article) new ResizeObserver(markWide).observe(article);
});

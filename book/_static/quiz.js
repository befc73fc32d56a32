// Gives each quiz question its "Check" button. Without this script the reasons can still be opened.
"use strict";

for (const question of document.querySelectorAll("fieldset.quiz")) {
  const button = question.querySelector(".quiz-check button");
  const result = question.querySelector(".quiz-result");
  const inputs = [...question.querySelectorAll("input")];

  const reason = (input) => {
    const copy = document.createElement("p");
    const source = [...question.querySelectorAll(".quiz-reasons li")].find(
      (item) => item.dataset.option === input.value,
    );
    copy.append(...[...source.childNodes].map((node) => node.cloneNode(true)));
    for (const element of copy.querySelectorAll("[id]")) element.removeAttribute("id");
    return copy;
  };

  const say = (state, text, ...more) => {
    const verdict = document.createElement("p");
    const strong = document.createElement("strong");
    strong.textContent = text;
    verdict.append(strong);
    result.dataset.state = state;
    result.replaceChildren(verdict, ...more);
  };

  const check = () => {
    const chosen = inputs.filter((input) => input.checked);
    const right = inputs.filter((input) => "right" in input.dataset);
    const wrong = chosen.filter((input) => !right.includes(input));
    const missing = right.filter((input) => !input.checked);
    if (chosen.length === 0) say("open", "Choose an answer first.");
    else if (wrong.length) say("wrong", "Not right.", ...wrong.map(reason));
    else if (missing.length) say("wrong", "Right so far, but not all of it.", ...chosen.map(reason));
    else say("right", "Right.", ...chosen.map(reason));
  };

  button.hidden = false;
  button.addEventListener("click", check);
  for (const input of inputs) {
    input.addEventListener("change", () => {
      result.replaceChildren();
      delete result.dataset.state;
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") check();
    });
  }
}

"use strict";
// Asks for the live part of the page once a second and puts in what has changed. Rows with an id are moved and not made
// anew, so that focus, scrolling and opened details stay. A hidden page asks nothing.
const live = document.getElementById("live");
const pulse = document.getElementById("pulse");
const EVERY_MS = 1000;
const PATIENCE_MS = 8000;
let timer = 0;

function isSame(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");
}

function adopt(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
  }
  adoptChildren(old, fresh);
}

function adoptChildren(old, fresh) {
  const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  const wanted = new Set([...fresh.children].map((child) => child.id).filter((id) => id));
  let at = old.firstChild;
  const drop = () => {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  };
  for (const child of [...fresh.childNodes]) {
    const twin = child.id ? known.get(child.id) : null;
    while (at && at !== twin && !isSame(at, child) && !wanted.has(at.id)) drop();
    const found = child.id ? twin : at;
    if (!found || !isSame(found, child)) {
      old.insertBefore(child, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    adopt(found, child);
  }
  while (at) drop();
}

function say(text) {
  if (pulse.textContent !== text) pulse.textContent = text;
}

async function look() {
  try {
    const answer = await fetch(live.dataset.from, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401 || answer.status === 404) {
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = document.createElement("template");
    fresh.innerHTML = await answer.text();
    adoptChildren(live, fresh.content);
    live.className = "moving";
    say("Live");
  } catch {
    live.className = "old";
    say("The gateway does not answer. This page tries again by itself.");
  }
  next();
}

function next() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, EVERY_MS);
}

document.addEventListener("visibilitychange", next);
next();

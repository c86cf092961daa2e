// The page: which pair is shown, what is said about it, and how far one is.

import { keepOnly, load, Players } from "./clips.js";
import { ask, Outbox, Refused, wait } from "./sending.js";

const LOOK_EVERY = 2000; // milliseconds between two looks for a pair where there is none
const ALIVE_EVERY = 30000; // between two signs of life, which keep the pair in hand ours
const WORDS = { left: "left is better", right: "right is better", equal: "equally good", incomparable: "can't say" };
const KEYS = {
  ArrowLeft: "left", ArrowRight: "right", ArrowDown: "equal", ArrowUp: "incomparable", "?": "incomparable", x: "incomparable",
};

const $ = (id) => document.getElementById(id);
const page = { name: null, current: null, next: null, ready: false, since: 0, last: null, busy: false, problem: null, acts: 0 };
const players = new Players($("left"), $("right"), drawPlay);
const outbox = new Outbox({ sent, refused, lost });

// --- pairs --------------------------------------------------------------------------------------------------

/** Ask which pairs are ours, and show what is not shown yet. */
async function look() {
  if (!page.name) return;
  const acts = page.acts;
  try {
    const found = await ask(`/api/pair?annotator=${encodeURIComponent(page.name)}`);
    lost(null);
    if (acts !== page.acts) return; // something was done meanwhile: this is how it was before, and another look follows
    drawProgress(found.progress);
    drawProblem(found.problem);
    take([found.pair, found.next].filter((pair) => pair && !outbox.holds(pair.id)), found.message);
  } catch (error) {
    if (error instanceof Refused && error.status === 400) askName(error.message);
    else lost(error);
  }
}

function take(pairs, message) {
  const same = pairs.find((pair) => pair.id === page.current?.id);
  page.next = pairs.find((pair) => pair.id !== (same ?? pairs[0])?.id) ?? null;
  const clips = [...pairs, page.current].filter(Boolean).flatMap((pair) => [pair.left.clip, pair.right.clip]);
  keepOnly(new Set(clips));
  for (const clip of clips) load(clip);
  if (same && !page.busy) return;
  if (pairs.length) show(pairs[0]);
  else if (!outbox.size && !page.current) drawEmpty(message ?? "Looking for pairs …");
}

async function show(pair) {
  page.current = pair;
  page.ready = page.busy = false;
  draw();
  if (!(await players.show(pair))) return;
  page.ready = true;
  page.since = performance.now();
  draw();
}

function answer(label) {
  if (!page.ready || page.busy) return;
  const { id } = page.current;
  const seconds = Math.round(performance.now() - page.since) / 1000;
  page.acts++;
  page.last = id;
  page.ready = false;
  const next = page.next;
  page.current = page.next = null;
  players.clear();
  say(`Saving: ${WORDS[label]} …`);
  outbox.add("/api/answer", { annotator: page.name, pair: id, label, seconds, key: newKey() });
  if (next) show(next);
  else draw();
}

/** 128 random bits; crypto.randomUUID exists on secure origins only, and a local network is none. */
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function undo() {
  if (!page.last || page.busy) return;
  page.acts++;
  page.busy = true;
  page.ready = false;
  say("Taking the last answer back …");
  outbox.add("/api/undo", { annotator: page.name, pair: page.last });
  page.last = null;
  draw();
}

function sent(entry, reply) {
  page.acts++; // a look under way may have been answered before this was stored: it would show the pair again
  if (entry.body.annotator === page.name) drawProgress(reply.progress);
  const undone = entry.path === "/api/undo";
  say(undone ? "The last answer was taken back. Look at the pair again." : `Saved: ${WORDS[entry.body.label]}.`);
  if (undone) page.current = null;
  look();
}

function refused(entry, error) {
  page.acts++;
  page.busy = false;
  say(`Not saved: ${error.message}`);
  page.current = null;
  look();
}

function lost(error) {
  const banner = $("lost");
  const waiting = outbox.size ? "Your answer is kept and will be sent again. " : "";
  if (!error) banner.textContent = "";
  else if (error instanceof Refused && error.status === 401)
    banner.textContent = `${waiting}The server was started again with another link: open that link in this browser.`;
  else if (error instanceof Refused) banner.textContent = `${waiting}The server cannot store at the moment: ${error.message}`;
  else banner.textContent = `Connection lost. ${waiting}Trying again …`;
  banner.hidden = !error;
}

// --- drawing ------------------------------------------------------------------------------------------------

function draw() {
  const some = Boolean(page.current);
  for (const id of ["clips", "answers"]) $(id).hidden = !some;
  for (const id of ["tools", "progress"]) $(id).hidden = !page.name;
  $("message").hidden = some;
  if (!some) $("message").textContent = "Looking for the next pair …";
  $("clips").classList.toggle("waiting", !page.ready);
  for (const button of document.querySelectorAll("#answers button")) button.disabled = !page.ready || page.busy;
  $("undo").disabled = !page.last || page.busy;
}

function drawEmpty(message) {
  page.busy = false;
  draw();
  $("message").textContent = message;
}

function drawPlay() {
  $("play").firstChild.textContent = players.playing ? "Pause " : "Play ";
}

function drawProgress({ total, goal, answered, repeated, agreed, last }) {
  const parts = [goal ? `${total} of ${goal} comparisons` : `${total} comparisons`, `${answered} by you`];
  if (repeated) parts.push(`${agreed} of ${repeated} repeated pairs answered alike`);
  $("numbers").textContent = parts.join(" · ");
  $("bar").hidden = !goal;
  $("bar").max = goal || 1;
  $("bar").value = Math.min(total, goal || 1);
  if (!outbox.size) page.last = last;
  $("undo").disabled = !page.last || page.busy;
}

function drawProblem(problem) {
  if (problem === page.problem) return;
  page.problem = problem;
  $("problem").hidden = !problem;
  $("problem").textContent = problem ?? "";
}

function drawText(text) {
  const parts = text.split(/\n\s*\n/).filter((part) => part.trim());
  $("text").replaceChildren(...parts.map((part) => Object.assign(document.createElement("p"), { textContent: part.trim() })));
  $("instructions").hidden = !parts.length;
  $("instructions").open = !read("mdcontest.read");
}

function say(text) {
  $("status").textContent = text;
}

// --- who ----------------------------------------------------------------------------------------------------

function askName(wrong) {
  $("who-wrong").textContent = wrong ?? "";
  $("who-wrong").hidden = !wrong;
  $("who-name").value = page.name ?? "";
  if (!$("who").open) $("who").showModal();
  $("who-name").select();
}

function setName(name) {
  page.acts++;
  page.name = name;
  keep("mdcontest.name", name);
  page.current = page.next = page.last = null;
  page.ready = false;
  players.clear();
  $("name").textContent = name;
  $("as").hidden = false;
  draw();
  look();
}

function read(place) {
  try {
    return localStorage.getItem(place);
  } catch {
    return null; // storage is blocked: the name is asked at every visit
  }
}

function keep(place, value) {
  try {
    localStorage.setItem(place, value);
  } catch {
    // see above
  }
}

// --- input --------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const modified = event.altKey || event.metaKey || event.ctrlKey;
  if ($("who").open || modified || event.target.closest("select, input")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in KEYS) {
    event.preventDefault(); // arrows would scroll
    if (!event.repeat) answer(KEYS[key]);
  } else if (key === "z" || key === "Backspace") {
    event.preventDefault();
    if (!event.repeat) undo();
  } else if (key === " " && !event.target.closest("button, summary")) {
    event.preventDefault();
    players.toggle();
  }
});
$("answers").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) answer(button.dataset.label);
});
$("undo").addEventListener("click", undo);
$("play").addEventListener("click", () => players.toggle());
$("speed").addEventListener("change", (event) => players.setSpeed(event.target.value));
$("rename").addEventListener("click", () => askName());
$("instructions").addEventListener("toggle", () => keep("mdcontest.read", "yes"));
$("who").addEventListener("cancel", (event) => {
  if (!page.name) event.preventDefault(); // nobody labels without a name
});
$("who-form").addEventListener("submit", (event) => {
  const name = $("who-name").value.trim();
  if (name) setName(name);
  else event.preventDefault();
});

async function start() {
  outbox.run();
  for (;;) {
    try {
      const state = await ask("/api/state");
      $("task").textContent = `${state.task} · `;
      drawText(state.instructions);
      break;
    } catch (error) {
      lost(error);
      await wait(LOOK_EVERY);
    }
  }
  const name = read("mdcontest.name");
  if (name) setName(name);
  else askName();
  setInterval(() => { if (!page.current || !$("lost").hidden) look(); }, LOOK_EVERY);
  setInterval(() => { if (!document.hidden) look(); }, ALIVE_EVERY);
}

start();

// Two clips that play together. They are loaded whole beforehand, so that showing the next pair waits for nothing.

import { wait } from "./sending.js";

const BETWEEN = 300; // milliseconds on the last picture before both begin again
const SHORT = 1.2; // seconds; shorter clips are slowed down to last so long
const APART = 0.05; // seconds by which the two may differ

const loaded = new Map();

/** The address of a clip in the browser's memory, as a promise; a failed attempt is made again. */
export function load(clip) {
  if (!loaded.has(clip)) loaded.set(clip, fetchClip(clip));
  return loaded.get(clip);
}

async function fetchClip(clip) {
  for (let pause = 300; ; pause = Math.min(2 * pause, 4000)) {
    try {
      const reply = await fetch(clip);
      if (reply.ok) return URL.createObjectURL(await reply.blob());
    } catch {
      // nobody answers: the page says so, and we go on trying
    }
    await wait(pause);
  }
}

/** Forget every clip that is not among these. */
export function keepOnly(clips) {
  for (const [clip, address] of loaded) {
    if (!clips.has(clip)) {
      loaded.delete(clip);
      address.then((url) => URL.revokeObjectURL(url));
    }
  }
}

export class Players {
  #turn = 0;
  speed = "auto";

  constructor(left, right, onchange) {
    this.videos = [left, right];
    this.onchange = onchange;
    this.playing = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    setInterval(() => this.#together(), 100);
    for (const video of this.videos) video.addEventListener("ended", () => this.#again());
  }

  /** Show a pair from its beginning; resolves when both first pictures are there, to false if it was replaced. */
  async show(pair) {
    const turn = ++this.#turn;
    const addresses = await Promise.all([load(pair.left.clip), load(pair.right.clip)]);
    if (turn !== this.#turn) return false;
    await Promise.all(this.videos.map((video, i) => shown(video, addresses[i])));
    if (turn !== this.#turn) return false;
    this.setSpeed(this.speed);
    this.playing = false;
    if (!this.still) this.play();
    this.onchange();
    return true;
  }

  clear() {
    this.#turn++;
    this.playing = false;
    for (const video of this.videos) video.pause();
  }

  play() {
    this.playing = true;
    if (this.videos.some((video) => video.ended)) this.#toStart();
    this.#start();
    this.onchange();
  }

  pause() {
    this.playing = false;
    for (const video of this.videos) video.pause();
    this.onchange();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  setSpeed(speed) {
    this.speed = speed;
    const seconds = this.videos[0].duration || SHORT;
    const rate = speed === "auto" ? Math.min(1, Math.max(seconds / SHORT, 0.1)) : Number(speed);
    for (const video of this.videos) video.playbackRate = video.defaultPlaybackRate = rate;
  }

  #start() {
    for (const video of this.videos) video.play().catch(() => {}); // refused: the button starts it
  }

  #toStart() {
    for (const video of this.videos) video.currentTime = 0;
  }

  async #again() {
    const turn = this.#turn;
    if (!this.videos.every((video) => video.ended)) return; // the other one brings both back
    await wait(BETWEEN);
    if (turn !== this.#turn || !this.playing) return;
    this.#toStart();
    if (this.still) this.pause();
    else this.#start();
  }

  #together() {
    const [left, right] = this.videos;
    if (!this.playing || left.ended || right.ended || left.seeking || right.seeking) return;
    if (Math.abs(left.currentTime - right.currentTime) > APART) right.currentTime = left.currentTime;
  }
}

function shown(video, address) {
  return new Promise((done) => {
    video.addEventListener("loadeddata", done, { once: true });
    video.addEventListener("error", done, { once: true });
    video.src = address;
    video.load();
  });
}

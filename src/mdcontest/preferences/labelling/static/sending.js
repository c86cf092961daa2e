// What is to be sent goes into a box that outlives a reload, and leaves it when the server has stored it. Everything is
// sent in order, again and again with the same key, so a lost connection neither loses an answer nor doubles it. Every tab
// has a box of its own: two that shared one would overwrite each other's.

const PLACE = "mdcontest.outbox";
const FIRST_PAUSE = 400, LONGEST_PAUSE = 4000;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The server's answer to a request; Refused with its sentence where it says no, another error where nobody answers. */
export async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const reply = await fetch(path, { signal: AbortSignal.timeout(15000), cache: "no-store", ...options });
  const answer = await reply.json();
  if (!reply.ok) throw new Refused(reply.status, answer.error ?? `status ${reply.status}`);
  return answer;
}

export const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export class Outbox {
  #entries = [];
  #running = false;

  /** on.sent(entry, answer), on.refused(entry, error), on.lost(error or null) */
  constructor(on) {
    this.on = on;
    try {
      this.#entries = JSON.parse(sessionStorage.getItem(PLACE) ?? "[]");
    } catch {
      this.#entries = []; // no storage here: answers still outlive a lost connection, though not a reload
    }
  }

  get size() {
    return this.#entries.length;
  }

  /** Whether an answer about this pair is on its way. */
  holds(pair) {
    return this.#entries.some((entry) => entry.body.pair === pair);
  }

  add(path, body) {
    this.#entries.push({ path, body });
    this.#keep();
    this.run();
  }

  async run() {
    if (this.#running) return;
    this.#running = true;
    let pause = FIRST_PAUSE;
    while (this.#entries.length) {
      const entry = this.#entries[0];
      try {
        const answer = await ask(entry.path, entry.body);
        this.#done();
        this.on.lost(null);
        this.on.sent(entry, answer);
        pause = FIRST_PAUSE;
      } catch (error) {
        const final = error instanceof Refused && error.status < 500 && error.status !== 401;
        if (final) {
          this.#done();
          this.on.refused(entry, error);
        } else {
          this.on.lost(error);
          await wait(pause);
          pause = Math.min(2 * pause, LONGEST_PAUSE);
        }
      }
    }
    this.#running = false;
  }

  #done() {
    this.#entries.shift();
    this.#keep();
  }

  #keep() {
    try {
      sessionStorage.setItem(PLACE, JSON.stringify(this.#entries));
    } catch {
      // no storage here, see above
    }
  }
}

// The races of the lab: what is asked, which policies answer, which rows come, and what is counted.

import { ask, queryPath, token, unknownToken, type Plan } from "./api";

export type Dials = Record<string, number>;

export interface Policy {
  name: string;
  does: string; // in a sentence
  options: Record<string, string>;
}

/** A setting of the dials, and what one sees with it. */
export interface Story {
  name: string;
  dials: Dials;
  expect: string;
}

export interface Race {
  id: string;
  title: string;
  lesson: string;
  text: string;
  measure: string;
  doing: string; // before the order that a policy has now
  policies: Policy[];
  dials: { key: string; text: string; least: number; most: number; step: number; value: number }[];
  work: string; // what is counted, as a word: "2.3 filters per row"
  source: string;
  stories: Story[];
  streams: string[];
  prepare(): Promise<void>;
  /** The rows of `span` seconds, from `at` on (microseconds); `seconds` is how long the race has gone on. */
  push(dials: Dials, at: number, seconds: number, span: number): Promise<void>;
  /** Work so far, and rows. */
  counted(policy: Policy): Promise<Counted>;
}

export interface Counted {
  work: number;
  rows: number;
  order: string; // in which the policy evaluates or looks now
}

// A search in a long text costs a microsecond, so fewer evaluations also take less time. With filters that cost next to
// nothing a policy would weigh what it costs to call them at all.
const passes = (column: string): string => `repeat(cast(${column} AS varchar), 60) RLIKE '^([1-4][0-9])*$'`;

export const FILTERS: Race = {
  id: "filters",
  title: "Which filter first?",
  lesson:
    "A row is a result only if it passes three filters: a, b and c. A row that one filter drops need not be shown to the others, so it is best to evaluate first the filter that drops" +
    " most rows. Four policies run the same query on the same rows. Their results are the same; they differ in how many filters they evaluate.",
  text: `SELECT Istream(ts) FROM lab_stream WHERE ${passes("a")} AND ${passes("b")} AND ${passes("c")}`,
  measure: "Filters evaluated per row",
  doing: "evaluates",
  work: "filters",
  source: "S. Babu and others, Adaptive Ordering of Pipelined Stream Filters, SIGMOD 2004",
  policies: [
    ["static", "evaluates a, b, c in the order in which they are written, whatever rows come."],
    ["independent", "measures the share of rows that passes each filter, and evaluates the filter with the smallest share first."],
    ["a-greedy", "also measures what a filter drops of the rows that passed the filters before it, so it sees when two filters drop the same rows."],
    ["sweep", "measures the same as a-greedy, one filter after another: less to measure, and a later decision."],
  ].map(([name, does]) => ({ name: name!, does: does!, options: { filters: name! } })),
  dials: [
    { key: "a", text: "share of rows that passes a", least: 0, most: 1, step: 0.05, value: 0.9 },
    { key: "b", text: "share of rows that passes b", least: 0, most: 1, step: 0.05, value: 0.5 },
    { key: "c", text: "share of rows that passes c", least: 0, most: 1, step: 0.05, value: 0.1 },
    { key: "together", text: "correlation: share of rows where a and b drop the same", least: 0, most: 1, step: 0.1, value: 0 },
    { key: "rate", text: "rows a second", least: 500, most: 10000, step: 500, value: 3000 },
    { key: "drift", text: "seconds until a and c change places (0: never)", least: 0, most: 60, step: 5, value: 0 },
  ],
  stories: [
    {
      name: "the written order is bad",
      dials: { a: 0.9, b: 0.5, c: 0.1, together: 0, drift: 0 },
      expect: "One row in ten passes c, which is written last. static evaluates 1 + 0.9 + 0.45 = 2.35 filters per row. The others soon evaluate c first: 1 + 0.1 + 0.05 = 1.15, and a little for measuring.",
    },
    {
      name: "the rows change",
      dials: { a: 0.9, b: 0.5, c: 0.1, together: 0, drift: 30 },
      expect: "Every 30 seconds a and c change places. The order of static is right half of the time. The others are wrong for a moment after each change, and then follow.",
    },
    {
      name: "two filters drop the same rows",
      dials: { a: 0.4, b: 0.4, c: 0.5, together: 1, drift: 0 },
      expect: "b drops just the rows that a drops, so after a it is of no use. independent does not see that and may evaluate a, b, c: 1.8 filters per row. a-greedy evaluates c second: 1.6.",
    },
  ],
  streams: ["lab_stream"],
  async prepare() {
    await declared("/v1/streams", { name: "lab_stream", columns: [["ts", "timestamp"], ...["a", "b", "c"].map((c) => [c, "bigint"])], timestamp: "ts" });
    await registered(this);
  },
  async push(dials, at, seconds, span) {
    const [a, b, c] = [dials["a"]!, dials["b"]!, dials["c"]!];
    const shares = turned(dials, seconds) ? [c, b, a] : [a, b, c];
    const count = Math.round(dials["rate"]! * span);
    await rows("lab_stream", "ts,a,b,c", count, (i) => {
      const one = Math.random(); // decides a, and b where they fall together
      const draws = [one, Math.random() < dials["together"]! ? one : Math.random(), Math.random()];
      const values = shares.map((s, k) => (draws[k]! < s ? 10 : 50) + Math.floor(Math.random() * 40));
      return [moment(at + i), ...values];
    });
  },
  async counted(policy) {
    const select = (await planOf(this, policy)).nodes.find((n) => n.kind === "select");
    const asked = (select?.knows["asked"] as number[] | undefined) ?? [];
    const order = (select?.knows["order"] as number[] | undefined) ?? [0, 1, 2];
    return { work: asked.reduce((a, b) => a + b, 0), rows: select?.statistics["elements_in"] ?? 0, order: order.map((i) => "abc"[i]).join(", then ") };
  },
};

const WINDOW = 200;
const ROWS_OF_S = 8; // for one row of r and one of t: rows of s have a choice where to look first

export const JOINS: Race = {
  id: "joins",
  title: "Which join first?",
  lesson:
    "A row of s joins with its partners in r and in t: rows with the same key. If it has none in t, it is no result, and its partners in r were looked up for nothing. So it is best to look" +
    " first where partners are few. Three policies run the same query on the same rows. Their results are the same; they differ in how many rows and index entries they visit.",
  text:
    `SELECT Istream(lab_s.k) FROM lab_r [ROWS ${WINDOW}], lab_s [ROWS ${WINDOW}], lab_t [ROWS ${WINDOW}]` + " WHERE lab_r.k = lab_s.k AND lab_s.m = lab_t.m",
  measure: "Rows and index entries visited per row",
  doing: "looks up a row of s in",
  work: "visits",
  source: "S. Babu and others, Adaptive Caching for Continuous Queries, ICDE 2005",
  policies: [
    { name: "static", does: "looks in r, then in t, in the order in which they are written.", options: { joins: "static", caches: "none" } },
    { name: "a-greedy", does: "measures how many partners rows find in r and in t, and looks first where partners are few.", options: { joins: "a-greedy", caches: "none" } },
    {
      name: "a-greedy with caches",
      does: "does the same, and where it pays keeps what was joined for a key, for the next row with that key.",
      options: { joins: "a-greedy", caches: "prefix(interval = 2000)" },
    },
  ],
  dials: [
    { key: "r", text: "partners that a row of s finds in r", least: 0.2, most: 5, step: 0.2, value: 4 },
    { key: "t", text: "partners that a row of s finds in t", least: 0.2, most: 5, step: 0.2, value: 0.2 },
    { key: "skew", text: "skew: how much some keys are more frequent than others", least: 0, most: 1, step: 0.1, value: 0 },
    { key: "rate", text: "rows a second", least: 500, most: 4000, step: 500, value: 2000 },
    { key: "drift", text: "seconds until r and t change places (0: never)", least: 0, most: 60, step: 5, value: 0 },
  ],
  stories: [
    {
      name: "the written order is bad",
      dials: { r: 4, t: 0.2, skew: 0, drift: 0 },
      expect: "A row of s has four partners in r, and one row in five has one in t. static visits four partners for nothing most of the time. a-greedy looks in t first.",
    },
    {
      name: "the rows change",
      dials: { r: 4, t: 0.2, skew: 0, drift: 30 },
      expect: "Every 30 seconds r and t change places. The order of static is right half of the time. a-greedy follows after each change.",
    },
    {
      name: "some keys come often",
      dials: { r: 1, t: 0.2, skew: 0.3, drift: 0 },
      expect: "Rows with frequent keys have many partners in both, which are all part of the result: every order has to visit them, so the lines are closer.",
    },
  ],
  streams: ["lab_r", "lab_s", "lab_t"],
  async prepare() {
    const columns: [string, string[]][] = [["lab_r", ["k"]], ["lab_s", ["k", "m"]], ["lab_t", ["m"]]];
    for (const [name, names] of columns) {
      await declared("/v1/streams", { name, columns: [["ts", "timestamp"], ...names.map((c) => [c, "bigint"])], timestamp: "ts" });
    }
    await registered(this);
  },
  async push(dials, at, seconds, span) {
    const [r, t] = turned(dials, seconds) ? [dials["t"]!, dials["r"]!] : [dials["r"]!, dials["t"]!];
    // Of the rows in a window each of so many keys has as many as asked for, if all are alike; skew favours the first.
    const key = (partners: number): number => Math.floor(Math.random() ** (1 + 3 * dials["skew"]!) * (WINDOW / partners));
    const count = Math.max(1, Math.round((dials["rate"]! * span) / (ROWS_OF_S + 2)));
    const step = Math.floor((span * 1e6) / (ROWS_OF_S * count));
    await rows("lab_r", "ts,k", count, (i) => [moment(at + ROWS_OF_S * i * step), key(r)]);
    await rows("lab_t", "ts,m", count, (i) => [moment(at + ROWS_OF_S * i * step), key(t)]);
    await rows("lab_s", "ts,k,m", ROWS_OF_S * count, (i) => [moment(at + i * step), key(r), key(t)]);
  },
  async counted(policy) {
    const join = (await planOf(this, policy)).nodes.find((n) => n.knows["accesses"] !== undefined);
    const orders = (join?.knows["orders"] as Record<string, string[]> | undefined) ?? {};
    const order = (orders["lab_s"] ?? []).map((name) => name.replace("lab_", "")).join(", then ");
    return { work: Number(join?.knows["accesses"] ?? 0), rows: Number(join?.knows["elements"] ?? 0), order };
  },
};

export const turned = (dials: Dials, seconds: number): boolean => dials["drift"]! > 0 && Math.floor(seconds / dials["drift"]!) % 2 === 1;

const queryOf = (race: Race, policy: Policy): string => `lab ${race.id} ${policy.name}`;

const planOf = (race: Race, policy: Policy): Promise<Plan> => ask<Plan>("GET", `${queryPath(queryOf(race, policy))}/plan`);

async function registered(race: Race): Promise<void> {
  for (const p of race.policies) await declared("/v1/queries", { name: queryOf(race, p), text: race.text, options: p.options });
}

/** Take back what a race has declared, so that nothing of it stays in the catalog. */
export async function finished(race: Race): Promise<void> {
  // What somebody else has dropped, or reads, is left as it is.
  const drop = (path: string): Promise<unknown> => ask("DELETE", path).catch(() => undefined);
  await Promise.all(race.policies.map((p) => drop(queryPath(queryOf(race, p)))));
  await Promise.all(race.streams.map((s) => drop(`/v1/streams/${s}`)));
}

async function declared(path: string, body: unknown): Promise<void> {
  await ask("POST", path, body).catch((e: Error) => {
    if (!e.message.includes("already taken")) throw e;
  });
}

/** A moment as text, from microseconds. */
const moment = (at: number): string => `${new Date(at / 1000).toISOString().slice(0, 19)}.${String(at % 1000000).padStart(6, "0")}`;

async function rows(stream: string, head: string, count: number, row: (i: number) => (string | number)[]): Promise<void> {
  const lines = [head];
  for (let i = 0; i < count; i++) lines.push(row(i).join(","));
  const answer = await fetch(`/v1/streams/${stream}/rows?wait=false`, {
    method: "POST",
    headers: { "Content-Type": "text/csv", Authorization: `Bearer ${token.get()}` },
    body: lines.join("\n"),
  });
  if (answer.status === 401) throw new Error(unknownToken());
  if (!answer.ok) throw new Error((await answer.json()).error);
}

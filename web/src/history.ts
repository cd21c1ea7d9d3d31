// What was seen of a query: samples of its plan and its decisions, in bounded space. A bundle is a history in a file.

import type { Decision, Sample } from "./api";

const KEPT_SECONDS = 600; // of samples
const SECONDS_APART = 0.45; // between two samples that are kept; the last one is always the newest
const MOST_DECISIONS = 200; // the server keeps more

export interface Bundle {
  eddyline: "bundle";
  version: 1;
  query: string;
  saved: number;
  samples: Sample[];
  decisions: Decision[];
}

export class History {
  samples: Sample[] = [];
  decisions = new Map<string, Decision>(); // by shard and number

  constructor(readonly query: string) {}

  add(sample: Sample): void {
    for (const d of sample.decisions) this.note(d);
    const [before, last] = this.samples.slice(-2);
    const kept = { ...sample, plan: shared(last?.plan ?? before?.plan, sample.plan), decisions: [] };
    if (before && last && last.at - before.at < SECONDS_APART) this.samples[this.samples.length - 1] = kept;
    else this.samples.push(kept);
    const old = this.samples.findIndex((s) => s.at >= sample.at - KEPT_SECONDS);
    if (old > 0) this.samples.splice(0, old);
  }

  note(d: Decision): void {
    this.decisions.set(keyOf(d), d);
    if (this.decisions.size > MOST_DECISIONS) this.decisions.delete(this.decisions.keys().next().value!);
  }

  get last(): Sample | undefined {
    return this.samples[this.samples.length - 1];
  }

  sorted(): Decision[] {
    return [...this.decisions.values()].sort((a, b) => (a.shard ?? -1) === (b.shard ?? -1) ? a.sequence - b.sequence : a.wall - b.wall);
  }

  bundle(): Bundle {
    const samples = thinned(this.samples, 300);
    return { eddyline: "bundle", version: 1, query: this.query, saved: Date.now() / 1000, samples, decisions: this.sorted() };
  }

  static from(bundle: Bundle): History {
    if (bundle.eddyline !== "bundle" || bundle.version !== 1) throw new Error("this file is no bundle of this version.");
    if (!bundle.samples?.length || !bundle.samples.every((s) => Array.isArray(s?.plan?.nodes)) || !Array.isArray(bundle.decisions)) throw new Error("this bundle is damaged.");
    const found = new History(bundle.query);
    found.samples = bundle.samples.map((s) => ({ ...s, decisions: [] }));
    for (const d of bundle.decisions) found.note(d);
    return found;
  }
}

/** Each shard numbers its own decisions. */
export const keyOf = (d: Decision): string => `${d.shard ?? ""}:${d.sequence}`;

/** `now` with all parts that equal those of `then` replaced by them: a plan hardly changes from sample to sample. */
export function shared<T>(then: T | undefined, now: T): T {
  if (then === undefined || then === now || typeof now !== "object" || now === null || typeof then !== "object" || then === null) return now;
  if (Array.isArray(now) !== Array.isArray(then)) return now;
  const [old, fresh] = [then as Record<string, unknown>, now as Record<string, unknown>];
  const keys = Object.keys(fresh);
  let same = keys.length === Object.keys(old).length;
  for (const key of keys) {
    const value = shared(old[key], fresh[key]);
    if (value !== old[key]) same = false;
    fresh[key] = value;
  }
  return same ? then : now;
}

function thinned<T>(items: T[], most: number): T[] {
  if (items.length <= most) return items;
  return Array.from({ length: most }, (_, i) => items[Math.round((i * (items.length - 1)) / (most - 1))]!);
}

/** Rates between two samples, by node: rows that came in and went out each second, and seconds of work in a second. */
export interface Rate {
  rowsIn: number;
  rowsOut: number;
  busy: number;
}

/** What a row costs an operator and becomes: of the last seconds, so that drift is seen; since the start where none came. */
export interface Ratio {
  selectivity: number; // rows out for a row in
  seconds: number; // of work for a row in
}

const RATIO_SAMPLES = 20; // ten seconds: fewer follow sooner, and jump about where rows are few

export function ratios(samples: Sample[], index: number): Map<string, Ratio> {
  const found = new Map<string, Ratio>();
  const now = samples[index];
  const then = samples[Math.max(0, index - RATIO_SAMPLES)];
  if (!now || !then) return found;
  const before = new Map(then.plan.nodes.map((n) => [n.id, n.statistics]));
  for (const { id, statistics: all } of now.plan.nodes) {
    const then = before.get(id) ?? {};
    const since = (key: string): number => (all[key] ?? 0) - (then[key] ?? 0);
    const part = since("elements_in") > 0 && since("elements_out") >= 0 && since("seconds") >= 0;
    const of = (key: string): number => (part ? since(key) : (all[key] ?? 0));
    const rows = of("elements_in");
    if (rows > 0) found.set(id, { selectivity: of("elements_out") / rows, seconds: of("seconds") / rows });
  }
  return found;
}

export function rates(samples: Sample[], index: number, over = 4): Map<string, Rate> {
  const found = new Map<string, Rate>();
  const now = samples[index];
  const then = samples[Math.max(0, index - over)];
  if (!now || !then || now.at <= then.at) return found;
  const before = new Map(then.plan.nodes.map((n) => [n.id, n.statistics]));
  for (const n of now.plan.nodes) {
    const b = before.get(n.id) ?? {};
    const per = (key: string): number => Math.max(0, ((n.statistics[key] ?? 0) - (b[key] ?? 0)) / (now.at - then.at));
    found.set(n.id, { rowsIn: per("elements_in"), rowsOut: per("elements_out"), busy: per("seconds") });
  }
  return found;
}

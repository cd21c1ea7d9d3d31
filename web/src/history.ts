// What was seen of a query: samples of its plan and its decisions, in bounded space. A bundle is a history in a file.

import type { Decision, Sample } from "./api";

const MOST = 1200; // samples: ten minutes at two a second

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
  decisions = new Map<number, Decision>();

  constructor(readonly query: string) {}

  add(sample: Sample): void {
    for (const d of sample.decisions) this.decisions.set(d.sequence, d);
    this.samples.push({ ...sample, decisions: [] });
    if (this.samples.length > MOST) this.samples.splice(0, this.samples.length - MOST);
  }

  get last(): Sample | undefined {
    return this.samples[this.samples.length - 1];
  }

  sorted(): Decision[] {
    return [...this.decisions.values()].sort((a, b) => a.sequence - b.sequence);
  }

  bundle(): Bundle {
    const samples = thinned(this.samples, 300);
    return { eddyline: "bundle", version: 1, query: this.query, saved: Date.now() / 1000, samples, decisions: this.sorted() };
  }

  static from(bundle: Bundle): History {
    if (bundle.eddyline !== "bundle" || bundle.version !== 1) throw new Error("this file is no bundle of this version.");
    const found = new History(bundle.query);
    for (const s of bundle.samples) found.add({ ...s, decisions: [] });
    for (const d of bundle.decisions) found.decisions.set(d.sequence, d);
    return found;
  }
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

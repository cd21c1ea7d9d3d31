// What the server says, typed, and how it is asked.

export interface Decision {
  sequence: number;
  kind: string;
  operator: string;
  by: string;
  before: unknown;
  after: unknown;
  reason: string;
  because?: string; // the template of the reason
  evidence: Record<string, unknown>;
  units: Record<string, string>;
  expected_gain: number | null;
  cost?: number | null; // of the change itself
  measured_gain: number | null;
  applied: boolean;
  wall: number; // microseconds
  names: string[];
  shard?: number | null;
}

export interface PlanNode {
  id: string;
  kind: string;
  inputs: string[];
  text: string;
  kept: { what: string; rows: number; bytes: number } | null;
  properties: { name: string; value: unknown; unit: string; changeable: boolean }[];
  statistics: Record<string, number>;
  strategy: string | null;
  adapts: string[];
  knows: Record<string, unknown>;
  readers?: string[];
}

export interface Plan {
  query: string;
  text: string;
  result: string;
  nodes: PlanNode[];
  edges: { source: string; target: string; elements: number | null; waiting: number | null }[];
  root: string;
  pinned: boolean;
  options: Record<string, unknown>;
  inputs: Record<string, Record<string, number | string>>;
  shared: { windows: number; rows: number }[];
  shards?: Shard[];
  rows: number;
}

/** What one shard of a query on Spark has done so far. */
export interface Shard {
  shard: number;
  results: number;
  rows: number;
  bytes: number;
  seconds: number;
  adapting?: Record<string, unknown>[];
}

export interface Sample {
  plan: Plan;
  decisions: Decision[];
  at: number; // seconds
}

export interface QuerySummary {
  name: string;
  id: number;
  text: string;
  status: string;
  message: string;
  rows: number;
  first: number;
  columns: [string, string][];
}

export interface Declared {
  name: string;
  kind: string;
  columns: [string, string][];
  input?: Record<string, number>;
}

export interface Catalog {
  streams: Declared[];
  relations: Declared[];
  views: Declared[];
  queries: QuerySummary[];
}

export interface Place {
  start: number;
  end: number;
}

export class Mistake extends Error {
  constructor(
    message: string,
    readonly place?: Place,
  ) {
    super(message);
  }
}

// A page in a file or in a notebook may have no storage, and needs no token.
export const token = {
  get: (): string => {
    try {
      return sessionStorage.getItem("token") ?? "";
    } catch {
      return "";
    }
  },
  set: (value: string): void => sessionStorage.setItem("token", value),
};

/** The token may come in the address, behind `#token=`; it is taken out of it at once. */
export function takeToken(): void {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    token.set(decodeURIComponent(found[1]!));
    history.replaceState(null, "", location.pathname + "#/");
  }
}

/** What to do when a change was refused, or on a server that others can reach also reading. */
export const unknownToken = (reading = false): string =>
  token.get()
    ? "The server does not know this token. It showed the right one at its first start: enter that above, or start it with --new-token for another one."
    : `${reading ? "Reading needs" : "Changes need"} the server's token, which it showed at its first start: enter it above.`;

const authorization = (): Record<string, string> => (token.get() ? { Authorization: `Bearer ${token.get()}` } : {});

export async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers = authorization();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }).catch(() => {
    throw new Mistake("The server does not answer. The page goes on when it is there again.");
  });
  const text = await answer.text();
  if (answer.status === 401) throw new Mistake(unknownToken(method === "GET"));
  if (!answer.ok) {
    let said: { error?: string; place?: Place } = {};
    try {
      said = JSON.parse(text);
    } catch {
      /* not ours */
    }
    throw new Mistake(said.error ?? `status ${answer.status}`, said.place);
  }
  return (text ? JSON.parse(text) : undefined) as T;
}

/** A parameter of a strategy: its default, and what a larger or smaller one trades. */
export interface Parameter {
  default: unknown;
  trades: string;
}

/** By option, then by strategy, then by parameter. */
export type Strategies = Record<string, Record<string, Record<string, Parameter>>>;

interface Words {
  functions: string[];
  strategies: Strategies;
}

let known: Promise<Words> | null = null;

/** What the server offers to write, asked for once. */
export function words(): Promise<Words> {
  known ??= ask<Words>("GET", "/v1/words").catch(() => {
    known = null; // the next one asks again
    return { functions: [], strategies: {} };
  });
  return known;
}

export const queryPath = (name: string): string => `/v1/queries/${encodeURIComponent(name)}`;

const COME_BACK = 2000; // milliseconds after a connection broke, or was refused for now
const FOR_GOOD = [404, 410, 422]; // answers that another attempt would get again

/** Follow server-sent events until closed. A connection that breaks is made again and goes on behind the last event. (The
 * browser's EventSource does so too, but sends no token, and gives up at the first answer that is none.) */
export function follow<T>(path: string, kind: string, take: (data: T) => void, end: (data: unknown) => void = () => undefined): () => void {
  const closed = new AbortController();
  const attempts = async (): Promise<void> => {
    let last = "";
    while (!closed.signal.aborted) {
      try {
        const answer = await fetch(path, { headers: { ...authorization(), ...(last ? { "Last-Event-ID": last } : {}) }, signal: closed.signal });
        if (FOR_GOOD.includes(answer.status)) return end({ reason: ((await answer.json()) as { error: string }).error });
        for await (const e of answer.ok ? events(answer.body!) : []) {
          if (closed.signal.aborted) return;
          last = e.id || last;
          if (e.kind === kind) queueMicrotask(() => take(JSON.parse(e.data) as T)); // its mistakes are not those of the connection
          if (e.kind !== "end" && e.kind !== "dropped") continue;
          const data = JSON.parse(e.data) as { first?: number };
          end(data);
          if (e.kind === "end" || data.first !== undefined) return; // too slow a reader may come back, others may not
        }
      } catch {
        // the server is away, or the page goes to another view
      }
      await new Promise((done) => setTimeout(done, COME_BACK));
    }
  };
  void attempts();
  return () => closed.abort();
}

interface Event {
  kind: string;
  id: string;
  data: string;
}

/** The events of an answer as they come; each ends with an empty line. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop()!;
      for (const block of blocks) yield event(block);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function event(block: string): Event {
  const fields: Record<string, string> = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  return { kind: fields["event"] ?? "", id: fields["id"] ?? "", data: fields["data"] ?? "" };
}

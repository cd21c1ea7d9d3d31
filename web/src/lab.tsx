// The lab: one generated stream, several policies, the same rows for all. Who evaluates fewest filters a row?

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, queryPath, token, type Plan } from "./api";
import { Chart, type Line } from "./chart";

const POLICIES = ["static", "independent", "a-greedy", "sweep"];
const TEXT = "SELECT Istream(ts) FROM lab_stream WHERE power(a, 2) < 2500 AND power(b, 2) < 2500 AND power(c, 2) < 2500";

interface Dials {
  rate: number;
  a: number;
  b: number;
  c: number;
  together: number;
  drift: number;
}

export function LabView() {
  const [dials, setDials] = useState<Dials>({ rate: 3000, a: 0.9, b: 0.5, c: 0.1, together: 0, drift: 0 });
  const [running, setRunning] = useState(false);
  const [lines, setLines] = useState<Line[]>([]);
  const [mistake, setMistake] = useState("");
  const now = useRef(dials);
  now.current = dials;
  useEffect(() => {
    if (!running) return;
    let over = false;
    const found = new Map<string, [number, number][]>(POLICIES.map((p) => [p, []]));
    const before = new Map<string, [number, number]>();
    const race = async (): Promise<void> => {
      await prepare();
      const began = performance.now();
      let at = Date.now() * 1000;
      for (let step = 0; !over; step++) {
        const seconds = (performance.now() - began) / 1000;
        await push(now.current, at, seconds);
        at = Math.max(at + 1000, Date.now() * 1000);
        if (step % 4 === 3) {
          for (const p of POLICIES) {
            const [asked, rows] = await counted(p);
            const then = before.get(p);
            before.set(p, [asked, rows]);
            if (then && rows > then[1]) found.get(p)!.push([seconds, (asked - then[0]) / (rows - then[1])]);
            found.set(p, found.get(p)!.slice(-240));
          }
          setLines(POLICIES.map((p) => ({ name: p, points: [...found.get(p)!] })));
        }
        await new Promise((done) => setTimeout(done, 200));
      }
    };
    race().catch((e: Error) => {
      setMistake(e.message);
      setRunning(false);
    });
    return () => {
      over = true;
    };
  }, [running]);
  const dial = (key: keyof Dials, text: string, least: number, most: number, step: number) => (
    <label class="dial">
      <span>
        {text}: <output>{dials[key]}</output>
      </span>
      <input type="range" min={least} max={most} step={step} value={dials[key]} onInput={(e) => setDials({ ...dials, [key]: Number(e.currentTarget.value) })} />
    </label>
  );
  return (
    <section>
      <h2>Which filter first?</h2>
      <p>
        Three filters must all hold. Whoever asks the one first that drops most rows asks fewest filters. <b>static</b> keeps the written order (a, b, c), the other policies watch
        the rows and change it. All of them answer the same query on the same rows, with the same result. Turn the dials and see who notices.
      </p>
      <p class="mono">{TEXT}</p>
      <div class="dials">
        {dial("a", "share that passes a", 0, 1, 0.05)}
        {dial("b", "share that passes b", 0, 1, 0.05)}
        {dial("c", "share that passes c", 0, 1, 0.05)}
        {dial("together", "correlation: share of rows in which a and b fall together", 0, 1, 0.1)}
        {dial("rate", "rows a second", 500, 10000, 500)}
        {dial("drift", "seconds until a and c change places (0: never)", 0, 60, 5)}
      </div>
      <div class="bar">
        <button id="race" onClick={() => (token.get() ? setRunning(!running) : setMistake("The lab pushes rows: enter the token first."))}>
          {running ? "stop" : "start the race"}
        </button>
      </div>
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      <h3>Filters evaluated for a row (fewer is better)</h3>
      <Chart lines={lines} unit="" label="filters evaluated for a row, by policy" />
    </section>
  );
}

async function prepare(): Promise<void> {
  const columns = ["a", "b", "c"].map((c) => [c, "bigint"]);
  await ask("POST", "/v1/streams", { name: "lab_stream", columns: [["ts", "timestamp"], ...columns], timestamp: "ts" }).catch(ignoreTaken);
  for (const p of POLICIES) {
    await ask("POST", "/v1/queries", { name: `lab ${p}`, text: TEXT, options: { filters: p } }).catch(ignoreTaken);
  }
}

function ignoreTaken(e: Error): void {
  if (!e.message.includes("already taken")) throw e;
}

async function push(dials: Dials, at: number, seconds: number): Promise<void> {
  const turned = dials.drift > 0 && Math.floor(seconds / dials.drift) % 2 === 1;
  const shares = turned ? [dials.c, dials.b, dials.a] : [dials.a, dials.b, dials.c];
  const count = Math.round(dials.rate / 5);
  const lines = ["ts,a,b,c"];
  for (let i = 0; i < count; i++) {
    const one = Math.random(); // decides a, and b where they fall together
    const draws = [one, Math.random() < dials.together ? one : Math.random(), Math.random()];
    const values = shares.map((s, k) => (draws[k]! < s ? 0 : 50) + Math.floor(Math.random() * 50));
    lines.push(`${new Date((at + i) / 1000).toISOString().slice(0, 19)}.${String((at + i) % 1000000).padStart(6, "0")},${values.join(",")}`);
  }
  const answer = await fetch("/v1/streams/lab_stream/rows?wait=false", {
    method: "POST",
    headers: { "Content-Type": "text/csv", Authorization: `Bearer ${token.get()}` },
    body: lines.join("\n"),
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
}

/** Filters asked so far, and rows. */
async function counted(policy: string): Promise<[number, number]> {
  const plan = await ask<Plan>("GET", `${queryPath(`lab ${policy}`)}/plan`);
  const select = plan.nodes.find((n) => n.kind === "select");
  const asked = (select?.knows["asked"] as number[] | undefined) ?? [];
  return [asked.reduce((a, b) => a + b, 0), select?.statistics["elements_in"] ?? 0];
}

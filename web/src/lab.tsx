// The lab: generated streams with dials, several policies, the same rows for all. Which does least work per row?

import { useEffect, useRef, useState } from "preact/hooks";
import { token, unknownToken } from "./api";
import { Chart, type Line } from "./chart";
import { FILTERS, finished, JOINS, turned, type Counted, type Dials, type Race, type Story } from "./races";

const PUSH_EVERY = 200; // milliseconds
const PUSHES_PER_POINT = 4; // of a line
const MOST_POINTS = 240; // of a line
const SETTLED = 1; // second that a dial rests between two changes
const BEGINS = "The race begins. First figures come within seconds; where kernels of the engine have to be compiled first, within a minute.";
const ALIKE = 1.05; // times the least work: no difference that one could see

export function LabView() {
  const [race, setRace] = useState<Race>(FILTERS);
  return (
    <section>
      <div class="bar" role="group" aria-label="race">
        {[FILTERS, JOINS].map((r) => (
          <button key={r.id} id={`race-of-${r.id}`} aria-pressed={r === race} onClick={() => setRace(r)}>
            {r.title}
          </button>
        ))}
      </div>
      <RaceView key={race.id} race={race} />
    </section>
  );
}

function RaceView({ race }: { race: Race }) {
  const [dials, setDials] = useState<Dials>(() => Object.fromEntries(race.dials.map((d) => [d.key, d.value])));
  const [story, setStory] = useState<Story | null>(race.stories[0]!);
  const [running, setRunning] = useState(false);
  const [standing, setStanding] = useState<Standing>({ lines: [], orders: {}, changes: [] });
  const { lines, orders, changes } = standing;
  const [mistake, setMistake] = useState("");
  const now = useRef(dials);
  now.current = dials;
  useEffect(() => {
    if (!running) return;
    let over = false;
    setStanding({ lines: [], orders: {}, changes: [] });
    setMistake("");
    run(race, () => now.current, setStanding, () => over).catch((e: Error) => {
      setMistake(e.message);
      setRunning(false);
    });
    return () => {
      over = true;
    };
  }, [running]);
  return (
    <>
      <h2>{race.title}</h2>
      <p>{race.lesson}</p>
      <dl class="policies">
        {race.policies.map((p) => (
          <>
            <dt>{p.name}</dt>
            <dd>
              {p.does}{" "}
              {running && orders[p.name] && (
                <strong class="now">
                  Now it {race.doing} {orders[p.name]}.
                </strong>
              )}
            </dd>
          </>
        ))}
      </dl>
      <details>
        <summary>the query, and where this comes from</summary>
        <p class="mono">{race.text}</p>
        <p class="small">{race.source}</p>
      </details>
      <div class="bar" role="group" aria-label="stories">
        <strong>1. Choose what comes:</strong>
        {race.stories.map((s) => (
          <button
            key={s.name}
            aria-pressed={s === story}
            onClick={() => {
              setStory(s);
              setDials({ ...dials, ...s.dials });
            }}
          >
            {s.name}
          </button>
        ))}
        <span class="small">or move the sliders, also while it runs</span>
      </div>
      <div class="dials">
        {race.dials.map((d) => (
          <label key={d.key} class="dial">
            <span>
              {d.text}: <output>{dials[d.key]}</output>
            </span>
            <input
              type="range"
              name={d.key}
              min={d.least}
              max={d.most}
              step={d.step}
              value={dials[d.key]}
              onInput={(e) => {
                setStory(null);
                setDials({ ...dials, [d.key]: Number(e.currentTarget.value) });
              }}
            />
          </label>
        ))}
      </div>
      <div class="bar">
        <strong>2.</strong>
        <button id="race" onClick={() => (token.get() ? setRunning(!running) : setMistake(unknownToken()))}>
          {running ? "stop the race" : "start the race"}
        </button>
      </div>
      {mistake && (
        <p class="mistake" role="alert">
          {mistake}
        </p>
      )}
      <p>
        <strong>3. What to see:</strong> {story ? story.expect : "Your own mix: which policy needs least, and how long does it take to find out?"}
      </p>
      <h3>{race.measure} (less is better)</h3>
      <p class="leader">{running && lines.every((l) => l.points.length === 0) ? BEGINS : leader(race, lines)}</p>
      <Chart lines={lines} unit="" digits={2} label={`${race.measure}, by policy, over the seconds of the race`} marks={changes} />
      {changes.length > 0 && <p class="small">Dotted lines: other rows come from here on.</p>}
    </>
  );
}

/** Which policy does least now, in a sentence. */
function leader(race: Race, lines: Line[]): string {
  const now = lines.map((l) => ({ name: l.name, value: l.points[l.points.length - 1]?.[1] })).filter((l) => l.value !== undefined);
  const [least, most] = [now.reduce((a, b) => (b.value! < a.value! ? b : a), now[0]!), now.reduce((a, b) => (b.value! > a.value! ? b : a), now[0]!)];
  if (!least || !most) return "Nothing was counted yet: start the race.";
  const ratio = most.value! / least.value!;
  if (ratio < ALIKE) return `All need about ${least.value!.toFixed(2)} ${race.work} per row now.`;
  const first = now.filter((l) => l.value! < ALIKE * least.value!).map((l) => l.name);
  const who = first.length === 1 ? `${first[0]} needs` : `${first.slice(0, -1).join(", ")} and ${first[first.length - 1]} need`;
  return `Now ${who} least, ${least.value!.toFixed(2)} ${race.work} per row; ${most.name} needs ${ratio.toFixed(1)} times as many.`;
}

/** What a race shows. */
interface Standing {
  lines: Line[];
  orders: Record<string, string>; // by policy
  changes: number[]; // seconds at which the rows became others
}

/** Push rows to all policies, and count what each did for them, until it is over. */
async function run(race: Race, dials: () => Dials, show: (standing: Standing) => void, over: () => boolean): Promise<void> {
  const before = last;
  let end = (): void => undefined;
  last = new Promise((done) => (end = done));
  await before; // what it declared has the same names
  try {
    await race.prepare();
    await go(race, dials, show, over);
  } finally {
    await finished(race);
    end();
  }
}

/** The race before, with all that it has to take back. */
let last: Promise<void> = Promise.resolve();

async function go(race: Race, dials: () => Dials, show: (standing: Standing) => void, over: () => boolean): Promise<void> {
  const found = new Map<string, [number, number][]>(race.policies.map((p) => [p.name, []]));
  const before = new Map<string, Counted>();
  const orders: Record<string, string> = {};
  let changes: number[] = [];
  let rows = "";
  const began = performance.now();
  let at = Date.now() * 1000;
  for (let step = 0; !over(); step++) {
    const seconds = (performance.now() - began) / 1000;
    await race.push(dials(), at, seconds, PUSH_EVERY / 1000);
    const coming = JSON.stringify({ ...dials(), rate: 0, turned: turned(dials(), seconds) });
    // A dial that is moved is one change, where it came to rest.
    if (rows && coming !== rows) changes = [...changes.filter((c) => c < seconds - SETTLED), seconds];
    rows = coming;
    at = Math.max(at + PUSH_EVERY * 1000, Date.now() * 1000);
    if (step % PUSHES_PER_POINT === PUSHES_PER_POINT - 1) {
      for (const p of race.policies) {
        const counted = await race.counted(p);
        const then = before.get(p.name);
        before.set(p.name, counted);
        orders[p.name] = counted.order;
        const points = found.get(p.name)!;
        if (then && counted.rows > then.rows) points.push([seconds, (counted.work - then.work) / (counted.rows - then.rows)]);
        found.set(p.name, points.slice(-MOST_POINTS));
      }
      const lines = race.policies.map((p) => ({ name: p.name, points: [...found.get(p.name)!] }));
      const begin = lines[0]!.points[0]?.[0] ?? 0;
      show({ lines, orders: { ...orders }, changes: changes.filter((c) => c >= begin) });
    }
    await new Promise((done) => setTimeout(done, PUSH_EVERY));
  }
}

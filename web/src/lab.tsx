// The lab: generated streams with dials, several policies, the same rows for all. Who does least work for a row?

import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./api";
import { Chart, type Line } from "./chart";
import { FILTERS, JOINS, type Dials, type Race } from "./races";

const PAUSE = 200; // milliseconds between two pushes
const COUNTED = 4; // pushes between two points of a line
const KEPT = 240; // points of a line

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
  const [running, setRunning] = useState(false);
  const [lines, setLines] = useState<Line[]>([]);
  const [mistake, setMistake] = useState("");
  const now = useRef(dials);
  now.current = dials;
  useEffect(() => {
    if (!running) return;
    let over = false;
    run(race, () => now.current, setLines, () => over).catch((e: Error) => {
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
      <p class="mono">{race.text}</p>
      <div class="bar" role="group" aria-label="stories">
        {race.stories.map((s) => (
          <button key={s.name} onClick={() => setDials({ ...dials, ...s.dials })}>
            {s.name}
          </button>
        ))}
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
              onInput={(e) => setDials({ ...dials, [d.key]: Number(e.currentTarget.value) })}
            />
          </label>
        ))}
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
      <h3>{race.measure} (less is better)</h3>
      <Chart lines={lines} unit="" label={`${race.measure}, by policy`} />
    </>
  );
}

/** Push rows to all policies, and count what each did for them, until it is over. */
async function run(race: Race, dials: () => Dials, show: (lines: Line[]) => void, over: () => boolean): Promise<void> {
  const found = new Map<string, [number, number][]>(race.policies.map((p) => [p.name, []]));
  const before = new Map<string, [number, number]>();
  await race.prepare();
  const began = performance.now();
  let at = Date.now() * 1000;
  for (let step = 0; !over(); step++) {
    const seconds = (performance.now() - began) / 1000;
    await race.push(dials(), at, seconds, PAUSE / 1000);
    at = Math.max(at + PAUSE * 1000, Date.now() * 1000);
    if (step % COUNTED === COUNTED - 1) {
      for (const p of race.policies) {
        const [work, rows] = await race.counted(p);
        const then = before.get(p.name);
        before.set(p.name, [work, rows]);
        const points = found.get(p.name)!;
        if (then && rows > then[1]) points.push([seconds, (work - then[0]) / (rows - then[1])]);
        found.set(p.name, points.slice(-KEPT));
      }
      show(race.policies.map((p) => ({ name: p.name, points: [...found.get(p.name)!] })));
    }
    await new Promise((done) => setTimeout(done, PAUSE));
  }
}

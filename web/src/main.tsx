// The page: one query at a time, seen from several sides.

import { render } from "preact";
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { ask, follow, queryPath, takeToken, token, type Catalog, type Sample } from "./api";
import { Chart } from "./chart";
import { DecisionsView } from "./decisions";
import { History, rates, type Bundle } from "./history";
import { LabView } from "./lab";
import { PlanView } from "./plan";
import { QueriesView, type Aside } from "./queries";
import "./style.css";
import { TimeView } from "./time";
import { clock } from "./words";

const VIEWS = { plan: "Plan", decisions: "Decisions", time: "Time", queries: "Queries", lab: "Lab" } as const;
type View = keyof typeof VIEWS;
const NOTHING: Catalog = { streams: [], relations: [], views: [], queries: [] };

/** The view, the query, and of the queries' view the rows that are shown: #/queries/loud/late. */
function place(): [View, string | null, string | null] {
  const [, view, query, rows] = /^#\/(\w*)(?:\/([^/]*))?(?:\/(\w+))?$/.exec(location.hash) ?? [];
  return [view && view in VIEWS ? (view as View) : "plan", query ? decodeURIComponent(query) : null, rows ?? null];
}

function embedded(): History | null {
  const found = document.getElementById("bundle")?.textContent;
  return found ? History.from(JSON.parse(found) as Bundle) : null;
}

function Page() {
  const [[view, query, rows], setPlace] = useState(place);
  const [catalog, setCatalog] = useState(NOTHING);
  const [loaded, setLoaded] = useState(false);
  const [away, setAway] = useState("");
  const [replay, setReplay] = useState<History | null>(embedded);
  const [index, setIndex] = useState(0);
  const [span, setSpan] = useState<[number, number] | null>(null);
  const [key, setKey] = useState(token.get());
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const seen = useRef<History | null>(null);

  const load = (): void => {
    ask<Catalog>("GET", "/v1/catalog").then(
      (found) => {
        setCatalog(found);
        setLoaded(true);
        setAway("");
      },
      (e: Error) => setAway(e.message),
    );
  };
  const choose = (name: string | null): void => {
    location.hash = `#/${place()[0]}/${name ? encodeURIComponent(name) : ""}`;
  };
  useEffect(() => {
    const move = (): void => setPlace(place());
    addEventListener("hashchange", move);
    move(); // the address may have changed since the first drawing
    if (replay) return () => removeEventListener("hashchange", move);
    load();
    const timer = setInterval(load, 2000);
    return () => {
      clearInterval(timer);
      removeEventListener("hashchange", move);
    };
  }, [replay]);

  const first = catalog.queries.find((q) => q.status === "running")?.name ?? null;
  const current = replay ? replay.query : (query ?? first);
  const entry = catalog.queries.find((q) => q.name === current);
  const running = entry?.status !== "failed" ? entry?.id : undefined; // another query of the same name has another id
  useEffect(() => {
    if (!current || replay || running === undefined) return;
    const found = (seen.current = new History(current));
    return follow<Sample>(`${queryPath(current)}/watch?every=0.1`, "plan", (sample) => {
      found.add(sample);
      redraw(0);
    });
  }, [current, replay, running]);

  const history = replay ?? (seen.current?.query === current ? seen.current : null);
  const samples = history?.samples ?? [];
  const at = replay ? index : samples.length - 1;
  const pinned = samples[at]?.plan.pinned ?? false;
  const decisions = (
    <DecisionsView key={current} query={current ?? ""} decisions={history?.sorted() ?? []} samples={samples} pinned={pinned} until={replay ? samples[at]?.at : undefined} span={view === "time" ? span : null} replay={!!replay} changed={load} />
  );
  return (
    <>
      <header class="top">
        <h1>Eddyline</h1>
        <nav aria-label="views">
          {Object.entries(VIEWS)
            .filter(([v]) => !replay || v === "plan" || v === "decisions")
            .map(([v, name], i) => (
              <a href={`#/${v}/${current ? encodeURIComponent(current) : ""}`} aria-current={view === v ? "page" : undefined} title={`key ${i + 1}`}>
                {name}
              </a>
            ))}
        </nav>
        {!replay && (
          <label>
            query{" "}
            <select id="query" value={current ?? ""} onChange={(e) => choose(e.currentTarget.value)}>
              {catalog.queries.map((q) => (
                <option value={q.name}>{q.name}</option>
              ))}
            </select>
          </label>
        )}
        <Tools history={history} replay={replay} setReplay={(h) => (setReplay(h), setIndex(0))} />
        {!replay && (
          <label>
            token{" "}
            <input
              id="token"
              type="password"
              autocomplete="off"
              value={key}
              placeholder="for changes"
              onInput={(e) => {
                setKey(e.currentTarget.value);
                token.set(e.currentTarget.value);
              }}
            />
          </label>
        )}
      </header>
      {away && (
        <p class="mistake away" role="alert">
          {away} {samples[at] && `What is shown is of ${clock(samples[at]!.at)}.`}
        </p>
      )}
      {replay && (
        <div class="bar replay">
          <strong>
            {samples.length > 1 ? "Replay" : "Plan"} of {replay.query}
          </strong>
          <input hidden={samples.length < 2} type="range" aria-label="moment" min={0} max={Math.max(0, samples.length - 1)} value={index} onInput={(e) => setIndex(Number(e.currentTarget.value))} />
          <output>{samples[index] ? clock(samples[index]!.at) : ""}</output>
        </div>
      )}
      <main>
        {view === "plan" && (
          <PlanView samples={samples} index={at} replay={!!replay} why={replay || !loaded ? "" : nothingToShow(catalog, current)} aside={replay ? {} : putAside(samples[at])} changed={load}>
            {replay && <ReplayChart samples={samples} at={samples[at]?.at} />}
            {decisions}
          </PlanView>
        )}
        {view === "time" && <TimeView span={span} setSpan={setSpan} catalog={catalog} changed={load} marks={(history?.sorted() ?? []).filter((d) => d.applied).map((d) => d.wall / 1e6)} />}
        {(view === "decisions" || view === "time") && decisions}
        {view === "queries" && <QueriesView catalog={catalog} query={current} tab={rows} choose={choose} changed={load} aside={putAside(samples[at])} />}
        {view === "lab" && <LabView />}
      </main>
    </>
  );
}

/** Rows of all inputs that a query did not process. */
function putAside(sample: Sample | undefined): Aside {
  const found: Aside = {};
  for (const counts of Object.values(sample?.plan.inputs ?? {})) {
    for (const kind of ["late", "invalid", "shed"] as const) found[kind] = (found[kind] ?? 0) + Number(counts[kind] ?? 0);
  }
  return found;
}

/** Why there is no plan, and what to do; empty where one will come. */
function nothingToShow(catalog: Catalog, query: string | null): string {
  if (catalog.queries.length === 0) return "No query runs yet: register one under Queries, or start a race in the Lab.";
  const found = catalog.queries.find((q) => q.name === query);
  if (!found) return `There is no query ${query}: choose another one above.`;
  return found.status === "failed" ? `${found.name} was stopped by an error: ${found.message}` : "";
}

function Tools(props: { history: History | null; replay: History | null; setReplay: (h: History | null) => void }) {
  const [mistake, setMistake] = useState("");
  const chooser = useRef<HTMLInputElement>(null);
  const save = (): void => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(props.history!.bundle())], { type: "application/json" }));
    link.download = `${props.history!.query}.bundle.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const open = async (file: File | undefined): Promise<void> => {
    try {
      if (file) props.setReplay(History.from(JSON.parse(await file.text()) as Bundle));
      setMistake("");
    } catch {
      setMistake(`${file!.name} is no bundle: save one here, or with eddyline run --bundle.`);
    }
  };
  return (
    <span class="tools">
      {props.history && !props.replay && (
        <button id="save-bundle" onClick={save}>
          save bundle
        </button>
      )}
      {props.replay && !document.getElementById("bundle") ? (
        <button onClick={() => props.setReplay(null)}>back to the server</button>
      ) : (
        !props.replay && (
          <>
            <button onClick={() => chooser.current?.click()}>open bundle</button>
            <input ref={chooser} id="open-bundle" type="file" accept=".json" aria-label="bundle to open" hidden onChange={(e) => {
                const chosen = e.currentTarget;
                void open(chosen.files?.[0]).then(() => (chosen.value = "")); // so that the same file can be chosen again
              }}
            />
          </>
        )
      )}
      {mistake && (
        <span class="mistake" role="alert">
          {mistake}
        </span>
      )}
    </span>
  );
}

/** Rows a second into each operator, as the bundle has them. */
function ReplayChart(props: { samples: Sample[]; at: number | undefined }) {
  const lines = useMemo(() => {
    const found = new Map<string, [number, number][]>();
    props.samples.forEach((s, i) => {
      for (const [id, rate] of rates(props.samples, i)) found.set(id, [...(found.get(id) ?? []), [s.at, rate.rowsIn]]);
    });
    return [...found].filter(([, points]) => points.some((p) => p[1] > 0)).map(([name, points]) => ({ name, points }));
  }, [props.samples]);
  return lines.length === 0 ? null : <Chart lines={lines} unit="rows/s" label="rows a second into each operator" clock marks={props.at === undefined ? [] : [props.at]} />;
}

/** The keys 1 to 5 lead to the views, unless one is typing. */
function shortcuts(e: KeyboardEvent): void {
  const typing = (e.target as Element).closest("input, select, textarea, .code");
  const view = Object.keys(VIEWS)[Number(e.key) - 1];
  if (typing || e.ctrlKey || e.altKey || e.metaKey || !view) return;
  location.hash = `#/${view}/${encodeURIComponent(place()[1] ?? "")}`;
}

addEventListener("keydown", shortcuts);
takeToken();
render(<Page />, document.getElementById("page")!);

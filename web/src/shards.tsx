// The shards of a query on Spark, side by side. A hot shard has half as much work again as the mean of all.

import type { Sample, Shard } from "./api";
import { amount, shown } from "./words";

const HOT = 1.5;

interface Load {
  shard: Shard;
  busy: number; // seconds of work in a second
  rate: number; // results a second
  hot: boolean;
}

export function loads(samples: Sample[], index: number): Load[] {
  const now = samples[index];
  if (!now) return [];
  const shards = now.plan.shards ?? [];
  // Shards report with a micro-batch: the last sample in which a shard had worked less is where its rate begins.
  const found = shards.map((shard) => {
    const before = earlier(samples, index, shard);
    const seconds = before ? now.at - before[0] : 0;
    const per = (key: "seconds" | "results"): number => (before && seconds > 0 ? (shard[key] - before[1][key]) / seconds : 0);
    return { shard, busy: per("seconds"), rate: per("results"), hot: false };
  });
  const work = (l: Load): number => (found.some((f) => f.busy > 0) ? l.busy : l.shard.seconds);
  const mean = found.reduce((sum, l) => sum + work(l), 0) / Math.max(1, found.length);
  return found.map((l) => ({ ...l, hot: found.length > 1 && work(l) > HOT * mean && mean > 0 }));
}

function earlier(samples: Sample[], index: number, shard: Shard): [number, Shard] | null {
  for (let i = index - 1; i >= Math.max(0, index - 40); i--) {
    const then = samples[i]!.plan.shards?.find((s) => s.shard === shard.shard);
    if (then && then.seconds < shard.seconds) return [samples[i]!.at, then];
  }
  return null;
}

export function ShardsView(props: { samples: Sample[]; index: number }) {
  const found = loads(props.samples, props.index);
  if (found.length === 0) return null;
  const most = Math.max(1e-12, ...found.map((l) => l.shard.seconds));
  const hot = found.filter((l) => l.hot).map((l) => l.shard.shard);
  return (
    <section class="shards" aria-label="shards">
      <h2>
        {found.length} shards {hot.length > 0 && <span class="badge hot">hot: shard {hot.join(", ")}</span>}
      </h2>
      <div class="side-by-side">
        {found.map(({ shard, busy, rate, hot }) => (
          <article key={shard.shard} class={`shard ${hot ? "hot" : ""}`}>
            <h3>
              shard {shard.shard} {hot && "▲ hot"}
            </h3>
            <div class="load" role="img" aria-label={`${((100 * shard.seconds) / most).toFixed(0)} % of the work of the busiest shard`}>
              <span style={{ width: `${(100 * shard.seconds) / most}%` }} />
            </div>
            <dl>
              <dt>busy</dt>
              <dd>{(100 * busy).toFixed(1)} %</dd>
              <dt>worked</dt>
              <dd>{shard.seconds.toFixed(2)} s</dd>
              <dt>results</dt>
              <dd>
                {amount(shard.results)} ({amount(rate)}/s)
              </dd>
              <dt>state</dt>
              <dd>
                {amount(shard.rows)} rows, {amount(shard.bytes, "B")}
              </dd>
            </dl>
            {(shard.adapting ?? []).map((a) => (
              <p class="small">
                {shown(a["operator"])}: {order(a)}
              </p>
            ))}
          </article>
        ))}
      </div>
    </section>
  );
}

/** How the filters or joins of a shard stand by now. */
function order(a: Record<string, unknown>): string {
  const names = (a["filters"] as string[] | undefined) ?? [];
  if (Array.isArray(a["order"])) return (a["order"] as number[]).map((n) => names[n] ?? String(n)).join(", then ");
  const orders = (a["orders"] as Record<string, string[]> | undefined) ?? {};
  return Object.entries(orders)
    .map(([name, steps]) => `Δ${name} → ${steps.join(" → ")}`)
    .join("; ");
}

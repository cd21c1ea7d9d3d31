// What a decision rests on: values with their units, and one row for each filter where a value has one for each.

import type { Decision } from "./api";
import { amount, duration, shown } from "./words";

const spoken = (key: string): string => key.replaceAll("_", " ");

function valued(value: unknown, unit: string | undefined): string {
  if (typeof value !== "number") return `${shown(value)}${unit ? ` ${unit}` : ""}`;
  if (unit === "s") return duration(value);
  if (unit === "bytes") return amount(value, "B");
  return `${shown(value)}${unit ? ` ${unit}` : ""}`;
}

/** Values that are the number of a filter or a place in the order: the template of the decision's sentence says so. */
function read(decision: Decision, key: string, value: unknown): string {
  const [, as] = new RegExp(`\\{${key}:(\\w+)\\}`).exec(decision.because ?? "") ?? [];
  if (as === "name" && typeof value === "number") return decision.names[value] ?? shown(value);
  if (as === "place" && typeof value === "number") return String(value + 1);
  return valued(value, decision.units?.[key]);
}

export function Evidence({ decision }: { decision: Decision }) {
  const all = Object.entries(decision.evidence ?? {});
  if (all.length === 0) return null;
  const names = decision.names ?? [];
  const each = all.filter((e): e is [string, unknown[]] => names.length > 1 && Array.isArray(e[1]) && e[1].length === names.length);
  const others = all.filter(([key]) => !each.some(([k]) => k === key));
  return (
    <details>
      <summary>evidence</summary>
      {each.length > 0 && (
        <div class="scroll" tabindex={0} role="region" aria-label="evidence by filter">
          <table class="evidence">
            <thead>
              <tr>
                <th />
                {each.map(([key]) => (
                  <th class="number">{spoken(key)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {names.map((name, i) => (
                <tr>
                  <td class="mono">{name}</td>
                  {each.map(([key, values]) => (
                    <td class="number">{valued(values[i], decision.units?.[key])}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <dl>
        {others.map(([key, value]) => (
          <>
            <dt>{spoken(key)}</dt>
            <dd>{read(decision, key, value)}</dd>
          </>
        ))}
      </dl>
    </details>
  );
}

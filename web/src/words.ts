// Numbers and values as people read them.

const OF_ONE: Record<string, string> = { rows: "row", "rows wait": "row waits" };

export function amount(value: number | null | undefined, unit = ""): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 1) unit = OF_ONE[unit] ?? unit;
  const size = Math.abs(value);
  const [scaled, prefix] =
    size >= 1e9 ? [value / 1e9, "G"] : size >= 1e6 ? [value / 1e6, "M"] : size >= 1e4 ? [value / 1e3, "k"] : [value, ""];
  const digits = Math.abs(scaled) >= 100 || Number.isInteger(scaled) ? 0 : Math.abs(scaled) >= 1 ? 1 : 3;
  return `${scaled.toFixed(digits)}${prefix || unit ? " " : ""}${prefix}${prefix && unit.length > 1 ? " " : ""}${unit}`;
}

export function duration(seconds: number | null): string {
  if (seconds === null || Number.isNaN(seconds)) return "–";
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds >= 1e-6 || seconds === 0) return `${(seconds * 1e6).toFixed(1)} µs`;
  return `${(seconds * 1e9).toFixed(0)} ns`;
}

export function shown(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : value.toPrecision(4);
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return JSON.stringify(value);
}

export const gain = (value: number | null): string => (value === null ? "–" : `${value.toFixed(2)}×`);
export const clock = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: "h23" });

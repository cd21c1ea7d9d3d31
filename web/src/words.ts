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
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .map(([key, v]) => `${key} ${shown(v)}`)
    .join(", ");
}

// Fonts of a drawing, as the style has them.
const FONTS = { text: "11px system-ui, sans-serif", title: "600 13px system-ui, sans-serif" };
const widths = new Map<string, number>();
let pen: CanvasRenderingContext2D | null = null;

/** How wide a text is drawn, in units of the drawing. */
export function widthOf(text: string, kind: keyof typeof FONTS): number {
  const key = `${kind} ${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    pen ??= document.createElement("canvas").getContext("2d")!;
    pen.font = FONTS[kind];
    found = pen.measureText(text).width;
    if (widths.size > 5000) widths.clear();
    widths.set(key, found);
  }
  return found;
}

/** As much of a text as there is room for. */
export function clipped(text: string, room: number, kind: keyof typeof FONTS): string {
  if (widthOf(text, kind) <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${text.slice(0, middle)}…`, kind) <= room) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

export const gain = (value: number | null): string => (value === null ? "–" : `${value.toFixed(2)}×`);
export const clock = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: "h23" });

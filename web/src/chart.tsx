// Lines over time, drawn by uPlot: cheap enough for ten updates a second.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { amount, clock } from "./words";

export interface Line {
  name: string;
  points: [number, number][];
}

// After Okabe and Ito's colours, which colour-blind people can tell apart, darker on light ground and lighter on dark:
// each has a contrast of 3 to 1 at least with the ground. Lines also differ in their dashes.
const COLOURS = {
  light: ["#0072b2", "#c24e00", "#00805d", "#a84a82", "#8a5f00", "#5c6670"],
  dark: ["#56b4e9", "#ff8f3f", "#2fcf9f", "#e59cc6", "#f0c000", "#c3ccd2"],
};
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 4]];
const HEIGHT = 190;
const [LEFT, RIGHT] = [76, 16]; // beside the lines; a timeline below has the same
const LEAST_SPAN = 1; // second: of a single point uPlot would show years
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600]; // seconds between two lines of the grid

export interface ChartProps {
  lines: Line[];
  unit: string;
  label: string;
  clock?: boolean; // the points' times are seconds since 1970
  marks?: number[]; // moments that are drawn as vertical lines
  range?: [number, number] | null; // of the axis of time; otherwise that of the points
  digits?: number; // behind the point, of the last values
}

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const marks = useRef<number[]>([]);
  const range = useRef<[number, number] | null>(null);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  const colours = COLOURS[dark ? "dark" : "light"];
  marks.current = props.marks ?? [];
  range.current = props.range ?? null;
  const names = props.lines.map((l) => l.name).join("\n");
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const change = (): void => setDark(scheme.matches);
    scheme.addEventListener("change", change);
    return () => scheme.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const element = place.current;
    if (!element || !names) return;
    const made = new uPlot(options(element, props, marks, range, colours), joined(props.lines), element);
    plot.current = made;
    const sized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, props.unit, dark]);
  useEffect(() => plot.current?.setData(joined(props.lines)), [props.lines, props.range?.[0], props.range?.[1]]);
  useEffect(() => plot.current?.redraw(false), [marks.current.join()]); // a replay moves a mark over lines that stay
  return (
    <figure class="chart">
      <div ref={place} class="plot" role="img" aria-label={props.label} />
      <figcaption>
        {props.lines.map((l, i) => (
          <span class="key">
            <svg width="26" height="8" aria-hidden="true">
              <line x1="0" y1="4" x2="26" y2="4" stroke={colours[i % 6]} stroke-width="2.5" stroke-dasharray={DASHES[i % 6]!.join(" ")} />
            </svg>{" "}
            {l.name}: {latest(l, props)}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function latest(line: Line, { unit, digits }: ChartProps): string {
  const value = line.points[line.points.length - 1]?.[1];
  return digits === undefined || value === undefined ? amount(value, unit) : value.toFixed(digits);
}

function joined(lines: Line[]): uPlot.AlignedData {
  const tables = lines.map((l) => [l.points.map((p) => p[0]), l.points.map((p) => p[1])] as uPlot.AlignedData);
  return tables.length === 0 ? [[]] : uPlot.join(tables);
}

function options(element: HTMLElement, props: ChartProps, marks: { current: number[] }, span: { current: [number, number] | null }, colours: string[]): uPlot.Options {
  const style = getComputedStyle(element);
  const ink = style.color;
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: style.getPropertyValue("--line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
  return {
    width: element.clientWidth || 300,
    height: HEIGHT,
    padding: [null, RIGHT, null, null],
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { time: !!props.clock, range: (_, low, high) => span.current ?? ((high ?? 0) - (low ?? 0) < LEAST_SPAN ? [(high ?? 0) - LEAST_SPAN, high ?? 0] : [low, high]) },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? high * 1.1 : 1] },
    },
    axes: [{ ...axis, size: 30, space: 70, incrs: STEPS, values: (_, ticks) => ticks.map((s) => (props.clock ? clock(s) : `${s} s`)) }, { ...axis, size: LEFT, values: (_, ticks) => ticks.map((v) => amount(v, props.unit)) }],
    series: [{}, ...props.lines.map((l, i) => ({ label: l.name, stroke: colours[i % 6]!, dash: DASHES[i % 6]!, width: 2, spanGaps: true, points: { show: false } }))],
    hooks: { draw: [(u) => drawMarks(u, marks.current, ink)] },
  };
}

function drawMarks(u: uPlot, marks: number[], ink: string): void {
  const [low, high] = [u.scales["x"]!.min ?? 0, u.scales["x"]!.max ?? 0];
  u.ctx.save();
  u.ctx.strokeStyle = ink;
  u.ctx.globalAlpha = 0.55;
  u.ctx.setLineDash([2, 3]);
  for (const m of marks) {
    if (m < low || m > high) continue;
    const x = u.valToPos(m, "x", true);
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}

// Lines over time, drawn on a canvas: cheap enough for ten updates a second.

import { useEffect, useRef } from "preact/hooks";
import { amount } from "./words";

export interface Line {
  name: string;
  points: [number, number][];
}

// Okabe and Ito's colours, which colour-blind people can tell apart; lines also differ in their dashes.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 4]];

export function Chart(props: { lines: Line[]; unit: string; label: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (canvas.current) draw(canvas.current, props.lines, props.unit);
  }, [props.lines, props.unit]);
  return (
    <figure class="chart">
      <canvas ref={canvas} role="img" aria-label={props.label} />
      <figcaption>
        {props.lines.map((l, i) => (
          <span class="key">
            <svg width="26" height="8" aria-hidden="true">
              <line x1="0" y1="4" x2="26" y2="4" stroke={COLOURS[i % 6]} stroke-width="2.5" stroke-dasharray={DASHES[i % 6]!.join(" ")} />
            </svg>{" "}
            {l.name}: {amount(l.points[l.points.length - 1]?.[1], props.unit)}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function draw(canvas: HTMLCanvasElement, lines: Line[], unit: string): void {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  pen.font = `11px ${style.fontFamily}`;
  const points = lines.flatMap((l) => l.points);
  if (points.length < 2) return;
  const first = Math.min(...points.map((p) => p[0]));
  const last = Math.max(...points.map((p) => p[0]));
  const top = Math.max(1e-9, ...points.map((p) => p[1])) * 1.1;
  const left = 64;
  const x = (t: number): number => left + ((t - first) / Math.max(1e-9, last - first)) * (width - left - 8);
  const y = (v: number): number => height - 18 - (v / top) * (height - 28);
  pen.strokeStyle = pen.fillStyle = style.color;
  pen.globalAlpha = 0.25;
  pen.lineWidth = 1;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    pen.beginPath();
    pen.moveTo(left, y(top * share));
    pen.lineTo(width - 8, y(top * share));
    pen.stroke();
  }
  pen.globalAlpha = 1;
  for (const share of [0, 0.5, 1]) pen.fillText(amount(top * share, unit), 2, y(top * share) + 4);
  pen.fillText(`${(last - first).toFixed(0)} s`, width - 40, height - 4);
  lines.forEach((l, i) => {
    pen.strokeStyle = COLOURS[i % 6]!;
    pen.setLineDash(DASHES[i % 6]!);
    pen.lineWidth = 2;
    pen.beginPath();
    l.points.forEach(([t, v], n) => (n ? pen.lineTo(x(t), y(v)) : pen.moveTo(x(t), y(v))));
    pen.stroke();
  });
  pen.setLineDash([]);
}

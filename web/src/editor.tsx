// A field for CQL that is bound while one types: the mistake is underlined where it is. The editor is loaded on first use.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, Mistake, words, type Catalog } from "./api";
import type { CqlEditor, Words } from "./codemirror";

interface EditorProps {
  text: string;
  change: (text: string) => void;
  rows?: number;
  label: string;
  catalog: Catalog;
  hint?: string; // said below while it is empty
  send?: () => void; // at Ctrl-Enter
}

export function Editor(props: EditorProps) {
  const [message, setMessage] = useState("");
  const [good, setGood] = useState(false);
  const [ready, setReady] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<CqlEditor | null>(null);
  const change = useRef(props.change);
  change.current = props.change;
  const send = useRef(props.send);
  send.current = props.send;
  // Texts that the editor has reported and that have not come back as a property yet: they must not change it.
  const reported = useRef<string[]>([]);
  useEffect(() => {
    let over = false;
    void import("./codemirror").then(({ CqlEditor }) => {
      if (over || !place.current) return;
      editor.current = new CqlEditor(place.current, props.text, props.label, props.rows ?? 4, {
        change: (t) => {
          reported.current.push(t);
          change.current(t);
        },
        send: () => send.current?.(),
      });
      setReady(true);
    });
    return () => {
      over = true;
      editor.current?.destroy();
      editor.current = null;
    };
  }, []);
  useEffect(() => {
    const known = reported.current.lastIndexOf(props.text);
    reported.current.splice(0, known + 1);
    if (known < 0) editor.current?.set(props.text);
  }, [props.text, ready]);
  const known = JSON.stringify(schema(props.catalog));
  useEffect(() => {
    if (ready) void words().then((found) => editor.current?.know({ schema: JSON.parse(known) as Words["schema"], functions: found.functions }));
  }, [known, ready]);
  useEffect(() => {
    setGood(false);
    if (!props.text.trim()) {
      setMessage("");
      editor.current?.underline(null, "");
      return;
    }
    let late = false;
    const timer = setTimeout(() => {
      ask<{ columns: [string, string][] }>("POST", "/v1/bind", { text: props.text }).then(
        (found) => {
          if (late) return;
          setMessage(`columns: ${found.columns.map(([n, t]) => `${n} ${t}`).join(", ")}`);
          editor.current?.underline(null, "");
          setGood(true);
        },
        (e: Mistake) => {
          if (late) return;
          setMessage(e.message);
          editor.current?.underline(e.place ?? null, e.message);
        },
      );
    }, 250);
    return () => {
      late = true;
      clearTimeout(timer);
    };
  }, [props.text, ready]);
  return (
    <div class="editor">
      <div ref={place} class="code" style={{ minHeight: `${(props.rows ?? 4) * 1.5 + 1}em` }} />
      <p class={good || !message ? "small" : "mistake"} role="status">
        {message || props.hint || " "}
      </p>
    </div>
  );
}

function schema(catalog: Catalog): Record<string, string[]> {
  const found: Record<string, string[]> = { SysStream: ["query", "entity", "kind", "property", "value", "unit"] };
  for (const d of [...catalog.streams, ...catalog.relations, ...catalog.views, ...catalog.queries]) found[d.name] = d.columns.map((c) => c[0]);
  return found;
}

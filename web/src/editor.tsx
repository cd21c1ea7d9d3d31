// A text field for CQL that is bound while one types: the mistake is underlined where it is.

import { useEffect, useState } from "preact/hooks";
import { ask, Mistake, type Place } from "./api";

export function Editor(props: { text: string; change: (text: string) => void; rows?: number; label: string }) {
  const [said, setSaid] = useState("");
  const [place, setPlace] = useState<Place | null>(null);
  const [good, setGood] = useState(false);
  useEffect(() => {
    setGood(false);
    if (!props.text.trim()) {
      setSaid("");
      setPlace(null);
      return;
    }
    const timer = setTimeout(() => {
      ask<{ columns: [string, string][] }>("POST", "/v1/bind", { text: props.text }).then(
        (found) => {
          setSaid(found.columns.map(([n, t]) => `${n} ${t}`).join(", "));
          setPlace(null);
          setGood(true);
        },
        (e: Mistake) => {
          setSaid(e.message);
          setPlace(e.place ?? null);
        },
      );
    }, 250);
    return () => clearTimeout(timer);
  }, [props.text]);
  const { text } = props;
  return (
    <div class="editor">
      <div class="layers">
        <pre aria-hidden="true">
          {place ? (
            <>
              {text.slice(0, place.start)}
              <u>{text.slice(place.start, Math.max(place.end, place.start + 1)) || " "}</u>
              {text.slice(Math.max(place.end, place.start + 1))}
            </>
          ) : (
            text
          )}
          {"\n"}
        </pre>
        <textarea aria-label={props.label} spellcheck={false} rows={props.rows ?? 4} value={text} onInput={(e) => props.change(e.currentTarget.value)} />
      </div>
      <p class={good ? "small" : "mistake"} role="status">
        {said || " "}
      </p>
    </div>
  );
}

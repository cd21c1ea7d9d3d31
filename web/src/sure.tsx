// A button for what cannot be taken back: it asks once.

import { useState } from "preact/hooks";

export function SureButton(props: { text: string; label: string; ask?: boolean; act: () => void }) {
  const [asked, setAsked] = useState(false);
  const press = (): void => {
    if (asked || props.ask === false) props.act();
    setAsked(!asked && props.ask !== false);
  };
  return (
    <button class={asked ? "sure" : ""} onClick={press} onBlur={() => setAsked(false)} aria-label={asked ? `really ${props.label}` : props.label}>
      {asked ? `really ${props.text}?` : props.text}
    </button>
  );
}

// CodeMirror with CQL: keywords, completion of streams, columns and functions, mistakes underlined.
//
// It stands in a shadow root, where its styles are sheets of the document's own making: the server's security policy
// allows no style that is written into the page.

import { acceptCompletion, autocompletion, closeBrackets, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { sql, SQLDialect } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Place } from "./api";

const KEYWORDS =
  "select distinct from where group by having order limit as and or not in exists between like is null true false case when then else end " +
  "union all except intersect join left right full outer inner on using asof with create stream relation view alter drop timestamp slack " +
  "auto idle range rows slide partition now unbounded istream dstream rstream wstream tumble hop session until filter over insert into " +
  "pin unpin query undo decision of set model sample every horizon partial second seconds minute minutes hour hours day days interval";
const TYPES = "bigint double string boolean timestamp int integer float date decimal varchar";

const dialect = SQLDialect.define({ keywords: KEYWORDS, types: TYPES, doubleDollarQuotedStrings: false, hashComments: false, caseInsensitiveIdentifiers: true });

const theme = EditorView.theme({
  "&": { border: "1px solid var(--line)", borderRadius: "6px", background: "var(--page)", color: "var(--ink)" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "1px" },
  ".cm-content": { font: "13.8px/1.5 ui-monospace, monospace", padding: "0.5rem 0.3rem", caretColor: "var(--ink)", minHeight: "inherit" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-scroller": { minHeight: "inherit" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--mark)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)" },
  ".cm-tooltip": { background: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--accent)", color: "var(--page)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.typeName], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.number, tags.bool], color: "var(--heat)" },
  { tag: tags.comment, color: "var(--soft)", fontStyle: "italic" },
]);

export interface Words {
  schema: Record<string, string[]>; // columns by stream
  functions: string[];
}

function language(words: Words) {
  const functions: CompletionSource = (context) => {
    const word = context.matchBefore(/\w+/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    const columns = [...new Set(Object.values(words.schema).flat())];
    return {
      from: word.from,
      options: [
        ...columns.map((label) => ({ label, type: "property", boost: 2 })),
        ...words.functions.map((label) => ({ label, type: "function", apply: `${label}(` })),
      ],
    };
  };
  const found = sql({ dialect, schema: words.schema, upperCaseKeywords: true });
  return [found, found.language.data.of({ autocomplete: functions })];
}

export class CqlEditor {
  private readonly view: EditorView;
  private readonly words = new Compartment();

  constructor(parent: HTMLElement, text: string, label: string, rows: number, told: { change: (text: string) => void; send: () => void }) {
    const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          history(),
          drawSelection(),
          closeBrackets(),
          autocompletion(),
          keymap.of([{ key: "Mod-Enter", run: () => (told.send(), true) }, { key: "Tab", run: acceptCompletion }, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
          EditorView.updateListener.of((u) => u.docChanged && told.change(u.state.doc.toString())),
          theme,
          EditorView.theme({ "&": { minHeight: `${rows * 1.5}em` } }),
          syntaxHighlighting(colours),
          this.words.of(language({ schema: {}, functions: [] })),
        ],
      }),
    });
  }

  set(text: string): void {
    if (text !== this.view.state.doc.toString()) this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  know(words: Words): void {
    this.view.dispatch({ effects: this.words.reconfigure(language(words)) });
  }

  /** Underline a mistake, or nothing. */
  underline(place: Place | null, message: string): void {
    const most = this.view.state.doc.length;
    const from = Math.min(place?.start ?? 0, Math.max(0, most - 1));
    const to = Math.min(Math.max(place?.end ?? 0, from + 1), most);
    this.view.dispatch(setDiagnostics(this.view.state, place ? [{ from, to, severity: "error", message }] : []));
  }

  destroy(): void {
    this.view.destroy();
  }
}

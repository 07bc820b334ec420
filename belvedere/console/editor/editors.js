// Editors in the page. In: a label, a text, what to do with changes. Out: {element, text(), put(text), focus()}. Each stands in a shadow tree, whose
// style sheets are objects: the page's Content-Security-Policy allows no other ones.

import * as code from "./codemirror.js";

const { EditorState, EditorView, HighlightStyle, Prec, keymap, tags } = code;

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.bool, tags.null, tags.definitionKeyword], color: "var(--code-word)" },
  { tag: [tags.string], color: "var(--code-text)" },
  { tag: [tags.number, tags.integer, tags.float], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--quiet)" },
  { tag: [tags.propertyName, tags.attributeName, tags.typeName, tags.atom], color: "var(--code-name)" },
  { tag: [tags.variableName, tags.special(tags.name)], color: "var(--code-variable)" },
]);

const LOOK = EditorView.theme({
  "&": { height: "100%", fontSize: "13.5px", color: "var(--text)", backgroundColor: "var(--field)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-content": { caretColor: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selected)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "4px", maxWidth: "26rem" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionInfo": { padding: "6px 8px", whiteSpace: "pre-wrap" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", color: "var(--text)", border: "none" },
  ".cm-diagnostic": { padding: "4px 8px" },
});

function editor(label, text, extensions, told) {
  const element = document.createElement("div");
  element.className = "editor";
  const root = element.attachShadow({ mode: "open" });
  const inside = document.createElement("div");
  root.append(inside);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(":host { display: block; overflow: hidden; } div:first-child { height: 100%; }");
  const view = new EditorView({ root, parent: inside, state: EditorState.create({ doc: text, extensions: [
    extensions, LOOK, code.syntaxHighlighting(COLOURS), EditorView.contentAttributes.of({ "aria-label": label }),
    EditorView.updateListener.of((update) => { if (update.docChanged) told?.(update.state.doc.toString()); }),
  ] }) });
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  return {
    element, view, text: () => view.state.doc.toString(), focus: () => view.focus(),
    put: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
  };
}

const writing = (run) => [
  Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }])), code.history(), code.drawSelection(), code.bracketMatching(), code.closeBrackets(), code.indentOnInput(),
  keymap.of([...code.closeBracketsKeymap, ...code.completionKeymap, ...code.defaultKeymap, ...code.historyKeymap, ...code.foldKeymap, ...code.lintKeymap]),
];

/** GraphQL with completion, the schema's own texts, and what is wrong as it is written. `jump` hears of the type or field that is asked for by Ctrl and click. */
export function queryEditor(text, schema, { told, run, jump }) {
  const options = { onShowInDocs: (field, type, parent) => jump(field, type, parent) };
  return editor("GraphQL", text, [code.lineNumbers(), code.foldGutter(), code.highlightActiveLine(), code.autocompletion(), code.graphql(schema, options), writing(run)], told);
}

export const jsonEditor = (label, text, { told, run }) => editor(label, text, [code.json(), writing(run)], told);

export const answerViewer = (label) => editor(label, "", [code.json(), code.foldGutter(), code.drawSelection(), EditorState.readOnly.of(true), EditorView.lineWrapping, keymap.of([...code.defaultKeymap, ...code.foldKeymap])]);

import { defineConfig } from "vite";

// The page is part of the Python package: it is built into it, with names that do not change from build to build.
// What a view needs only when it is opened (the editor, the layout's worker) is loaded then.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../src/eddyline/server/static",
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 700,
    rollupOptions: {
      output: {
        entryFileNames: "assets/page.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: (asset) => (asset.names.some((n) => n.endsWith(".css")) ? "assets/page.css" : "assets/[name][extname]"),
        manualChunks: (id) => (/codemirror|lezer|style-mod|crelt|w3c-keyname/.test(id) ? "codemirror" : undefined),
      },
    },
  },
});

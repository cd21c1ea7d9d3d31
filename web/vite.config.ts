import { defineConfig } from "vite";

// The page is part of the Python package: it is built into it, with names that do not change from build to build.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../src/eddyline/server/static",
    emptyOutDir: true,
    modulePreload: false,
    rollupOptions: {
      output: { entryFileNames: "assets/page.js", assetFileNames: "assets/page[extname]" },
    },
  },
});

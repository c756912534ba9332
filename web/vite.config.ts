import { defineConfig } from "vite";

// One script and one style sheet, named after their content: the gateway serves them for ever, and `index.html` never.
export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../crates/server/assets",
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    modulePreload: false,
    sourcemap: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/inspector-[hash].js",
        assetFileNames: "assets/inspector-[hash][extname]",
        codeSplitting: false,
      },
    },
  },
  server: { proxy: { "/api": process.env["CAUSEWAY_URL"] ?? "http://127.0.0.1:8787" } },
});

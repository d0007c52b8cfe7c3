/**
 * Builds the viewer's front end into dist/web: index.html, one script, one style sheet, under names that do not change, so that the
 * server can hand them out and `saccade run pack` can put them into one file. `npm run build`.
 */
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    target: "es2023",
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    emptyOutDir: true,
    rollupOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app.[ext]", codeSplitting: false },
    },
  },
});

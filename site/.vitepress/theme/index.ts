/** VitePress's own theme without its web fonts, and a board to play on at the top of the first page. */
import { useData } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { h } from "vue";
import PlayWorld from "./PlayWorld.vue";
import "./style.css";

export default {
  extends: DefaultTheme,
  Layout() {
    const { page } = useData();
    const isFirst = page.value.relativePath === "index.md";
    return h(DefaultTheme.Layout, null, isFirst ? { "doc-before": () => h(PlayWorld) } : {});
  },
};

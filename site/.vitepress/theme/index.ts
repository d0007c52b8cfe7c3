/** VitePress's own theme without its web fonts, and a board to play on at the top of the first page. */
import { useData, useRoute } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { defineComponent, h, nextTick, onMounted, watch } from "vue";
import PlayWorld from "./PlayWorld.vue";
import "./style.css";

/** The theme has a button inside the button that opens a section of the sidebar. The outer one does the same; the inner one stays for the mouse. */
function tidyButtons(): void {
  for (const caret of document.querySelectorAll(".VPSidebarItem .caret")) {
    for (const name of ["role", "tabindex", "aria-label"]) caret.removeAttribute(name);
    caret.setAttribute("aria-hidden", "true");
  }
  // Where its words are shown, they are the search button's name.
  for (const button of document.querySelectorAll(".DocSearch-Button")) {
    const words = button.querySelector<HTMLElement>(".DocSearch-Button-Placeholder");
    if (words?.offsetParent) button.removeAttribute("aria-label");
  }
}

const Layout = defineComponent({
  setup() {
    const { page } = useData();
    const route = useRoute();
    const tidy = () => nextTick(tidyButtons);
    onMounted(tidy);
    watch(() => route.path, tidy);
    return () =>
      h(DefaultTheme.Layout, null, page.value.relativePath === "index.md" ? { "doc-before": () => h(PlayWorld) } : {});
  },
});

export default { extends: DefaultTheme, Layout };

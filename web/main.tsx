/** Starts the run viewer in the page it is loaded into. */
import { render } from "preact";
import { openSource } from "../src/viewer/source.ts";
import { App } from "./app.tsx";
import { listenToKeys } from "./keys.tsx";
import "./style.css";
import "./pages.css";

const root = document.getElementById("app");
if (root !== null) {
  listenToKeys();
  render(<App source={openSource()} />, root);
}

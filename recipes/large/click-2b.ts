/**
 * MiniWoB++'s eight click tasks for Qwen3-VL-2B, through its own computer_use tool.
 */
import { largePages } from "../parts/pages-large.ts";

export default largePages("click", "2B", {
  teaches: "click what the instruction names on a web page (GRPO)",
  needs: { hardware: "1 GPU of 80 GB, a browser, the pages of MiniWoB++" },
  expect: "not yet run here",
});

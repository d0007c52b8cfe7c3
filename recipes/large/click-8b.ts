/**
 * MiniWoB++'s eight click tasks for Qwen3-VL-8B, through its own computer_use tool.
 */
import { largePages } from "../parts/pages-large.ts";

export default largePages("click", "8B", {
  teaches: "click what the instruction names on a web page (GRPO)",
  needs: { hardware: "8 GPUs of 80 GB, a browser, the pages of MiniWoB++" },
  expect: "not yet run here",
});

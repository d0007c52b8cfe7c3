/**
 * Our eight pages for Qwen3-VL-8B, through its own computer_use tool.
 */
import { largePages } from "../parts/pages-large.ts";

export default largePages("pages", "8B", {
  teaches: "log in, shop, sort mail and five more web pages (GRPO)",
  needs: { hardware: "8 GPUs of 80 GB, a browser" },
  expect: "not yet run here",
});

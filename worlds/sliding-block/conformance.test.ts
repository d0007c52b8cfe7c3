import { conforms } from "../shared/test-conformance.ts";
import { slidingBlock } from "./sliding-block.ts";

conforms(slidingBlock);

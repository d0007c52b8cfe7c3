import { conforms } from "../shared/conformance.ts";
import { slidingBlock } from "./sliding-block.ts";

conforms(slidingBlock);

import { conforms } from "../shared/test-conformance.ts";
import { patchReassembly } from "./patch-reassembly.ts";

conforms(patchReassembly);

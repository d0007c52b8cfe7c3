import { conforms } from "../shared/conformance.ts";
import { patchReassembly } from "./patch-reassembly.ts";

conforms(patchReassembly);

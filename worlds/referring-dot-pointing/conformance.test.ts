import { conforms } from "../shared/test-conformance.ts";
import { referringDotPointing } from "./referring-dot-pointing.ts";

conforms(referringDotPointing);

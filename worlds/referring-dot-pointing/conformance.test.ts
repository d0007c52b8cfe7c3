import { conforms } from "../shared/conformance.ts";
import { referringDotPointing } from "./referring-dot-pointing.ts";

conforms(referringDotPointing);

import { conforms } from "../shared/test-conformance.ts";
import { svg } from "./svg.ts";

conforms(svg);

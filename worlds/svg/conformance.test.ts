import { conforms } from "../shared/conformance.ts";
import { svg } from "./svg.ts";

conforms(svg);

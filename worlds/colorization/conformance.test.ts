import { conforms } from "../shared/test-conformance.ts";
import { colorization } from "./colorization.ts";

conforms(colorization);

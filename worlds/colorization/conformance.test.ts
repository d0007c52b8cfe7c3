import { conforms } from "../shared/conformance.ts";
import { colorization } from "./colorization.ts";

conforms(colorization);

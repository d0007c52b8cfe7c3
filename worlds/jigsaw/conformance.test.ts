import { conforms } from "../shared/conformance.ts";
import { jigsaw } from "./jigsaw.ts";

conforms(jigsaw);

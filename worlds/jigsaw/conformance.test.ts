import { conforms } from "../shared/test-conformance.ts";
import { jigsaw } from "./jigsaw.ts";

conforms(jigsaw);

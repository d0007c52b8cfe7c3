import { conforms } from "../shared/test-conformance.ts";
import { counting } from "./counting.ts";

conforms(counting);

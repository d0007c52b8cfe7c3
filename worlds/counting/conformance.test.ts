import { conforms } from "../shared/conformance.ts";
import { counting } from "./counting.ts";

conforms(counting);

import { conforms } from "../shared/test-conformance.ts";
import { colorCodeword } from "./color-codeword.ts";

conforms(colorCodeword);

import { conforms } from "../shared/conformance.ts";
import { colorCodeword } from "./color-codeword.ts";

conforms(colorCodeword);

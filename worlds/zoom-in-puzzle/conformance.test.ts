import { conforms } from "../shared/conformance.ts";
import { zoomInPuzzle } from "./zoom-in-puzzle.ts";

conforms(zoomInPuzzle);

import { conforms } from "../shared/test-conformance.ts";
import { zoomInPuzzle } from "./zoom-in-puzzle.ts";

conforms(zoomInPuzzle);

import { conforms } from "../shared/test-conformance.ts";
import { maze2d } from "./maze-2d.ts";

conforms(maze2d);

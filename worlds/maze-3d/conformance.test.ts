import { conforms } from "../shared/test-conformance.ts";
import { maze3d } from "./maze-3d.ts";

conforms(maze3d);

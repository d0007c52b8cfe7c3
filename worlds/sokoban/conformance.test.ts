import { conforms } from "../shared/test-conformance.ts";
import { sokoban } from "./sokoban.ts";

conforms(sokoban);

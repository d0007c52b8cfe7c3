import { conforms } from "../shared/conformance.ts";
import { sokoban } from "./sokoban.ts";

conforms(sokoban);

import { conforms } from "../shared/test-conformance.ts";
import { frozenLake } from "./frozen-lake.ts";

conforms(frozenLake);

import { conforms } from "../shared/conformance.ts";
import { frozenLake } from "./frozen-lake.ts";

conforms(frozenLake);

import { conforms } from "../shared/test-conformance.ts";
import { matchstickEquation } from "./matchstick-equation.ts";

conforms(matchstickEquation);

import { conforms } from "../shared/conformance.ts";
import { matchstickEquation } from "./matchstick-equation.ts";

conforms(matchstickEquation);

import { conforms } from "../shared/test-conformance.ts";
import { matchstickRotation } from "./matchstick-rotation.ts";

conforms(matchstickRotation);

import { conforms } from "../shared/conformance.ts";
import { matchstickRotation } from "./matchstick-rotation.ts";

conforms(matchstickRotation);

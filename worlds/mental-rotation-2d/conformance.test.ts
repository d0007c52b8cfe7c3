import { conforms } from "../shared/test-conformance.ts";
import { mentalRotation2d } from "./mental-rotation-2d.ts";

conforms(mentalRotation2d);

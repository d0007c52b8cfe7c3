import { conforms } from "../shared/test-conformance.ts";
import { mentalRotation3dObjaverse } from "./mental-rotation-3d-objaverse.ts";

conforms(mentalRotation3dObjaverse);

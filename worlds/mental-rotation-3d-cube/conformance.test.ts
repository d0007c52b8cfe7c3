import { conforms } from "../shared/test-conformance.ts";
import { mentalRotation3dCube } from "./mental-rotation-3d-cube.ts";

conforms(mentalRotation3dCube);

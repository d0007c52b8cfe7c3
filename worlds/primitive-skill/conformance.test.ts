import { conforms } from "../shared/conformance.ts";
import { primitiveSkill } from "./primitive-skill.ts";

conforms(primitiveSkill);

import { conforms } from "../shared/test-conformance.ts";
import { primitiveSkill } from "./primitive-skill.ts";

conforms(primitiveSkill);

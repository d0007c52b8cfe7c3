import { conforms } from "../shared/test-conformance.ts";
import { navigation } from "./navigation.ts";

conforms(navigation);

import { conforms } from "../shared/conformance.ts";
import { navigation } from "./navigation.ts";

conforms(navigation);

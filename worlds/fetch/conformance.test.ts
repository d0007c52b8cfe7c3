import { conforms } from "../shared/conformance.ts";
import { fetchPickAndPlace, fetchReach } from "./fetch.ts";

conforms(fetchReach);
conforms(fetchPickAndPlace);

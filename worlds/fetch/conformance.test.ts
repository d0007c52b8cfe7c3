import { conforms } from "../shared/test-conformance.ts";
import { fetchPickAndPlace, fetchReach } from "./fetch.ts";

conforms(fetchReach);
conforms(fetchPickAndPlace);

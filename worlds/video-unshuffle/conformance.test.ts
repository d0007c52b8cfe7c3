import { conforms } from "../shared/test-conformance.ts";
import { videoUnshuffle } from "./video-unshuffle.ts";

conforms(videoUnshuffle);

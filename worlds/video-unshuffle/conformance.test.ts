import { conforms } from "../shared/conformance.ts";
import { videoUnshuffle } from "./video-unshuffle.ts";

conforms(videoUnshuffle);

/** Times of day: the colours of sky, air and light that everything in a scene shares. */
import type { Color } from "./brush.ts";

export type Mood = {
  readonly name: string;
  readonly zenith: Color;
  readonly horizon: Color;
  readonly sun: Color;
  /** How high the sun stands above the horizon, as a share of the sky; below 0: none is seen. */
  readonly sunHeight: number;
  readonly cloud: Color;
  readonly haze: Color;
  readonly grass: Color;
  readonly water: Color;
  /** Multiplied into the finished image. */
  readonly tint: Color;
};

export const moods: readonly Mood[] = [
  {
    name: "noon",
    zenith: [72, 142, 212],
    horizon: [190, 222, 238],
    sun: [255, 250, 220],
    sunHeight: 0.8,
    cloud: [255, 255, 252],
    haze: [176, 206, 228],
    grass: [112, 170, 72],
    water: [52, 130, 176],
    tint: [255, 255, 252],
  },
  {
    name: "morning",
    zenith: [124, 176, 214],
    horizon: [252, 226, 196],
    sun: [255, 240, 196],
    sunHeight: 0.3,
    cloud: [255, 244, 232],
    haze: [226, 214, 208],
    grass: [134, 176, 82],
    water: [98, 156, 178],
    tint: [255, 250, 240],
  },
  {
    name: "sunset",
    zenith: [84, 84, 150],
    horizon: [252, 166, 98],
    sun: [255, 214, 130],
    sunHeight: 0.16,
    cloud: [250, 170, 140],
    haze: [206, 140, 130],
    grass: [128, 142, 62],
    water: [106, 104, 150],
    tint: [255, 238, 220],
  },
  {
    name: "dusk",
    zenith: [38, 48, 98],
    horizon: [150, 130, 176],
    sun: [240, 238, 250],
    sunHeight: 0.6,
    cloud: [130, 124, 168],
    haze: [110, 108, 156],
    grass: [78, 120, 88],
    water: [58, 82, 134],
    tint: [232, 234, 255],
  },
  {
    name: "overcast",
    zenith: [150, 168, 182],
    horizon: [214, 220, 222],
    sun: [255, 255, 255],
    sunHeight: -1,
    cloud: [236, 238, 238],
    haze: [196, 204, 208],
    grass: [104, 152, 84],
    water: [104, 136, 148],
    tint: [250, 252, 255],
  },
];

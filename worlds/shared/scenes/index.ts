/** Images for worlds: scenes, counting scenes, named objects and clips from a seed, or a user's photos. */
export { type Clip, clip } from "./clip.ts";
export { type Film, type FilmSource, films } from "./films.ts";
export { type Referring, referringScene } from "./refer.ts";
export { COUNTABLE, countingScene, type Scene, type SceneObject, type SceneSize, scene } from "./scene.ts";
export { filesIn, findIn, type ImageSource, keepScene, pictures, sceneSeed, when } from "./source.ts";

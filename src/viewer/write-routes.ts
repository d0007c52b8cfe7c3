/**
 * What changes a run folder, and what is made of a choice of episodes. A run is only ever looked up by its id, so nothing outside the folder of
 * runs is written or deleted; a viewer that is read only refuses all of it; and whoever deletes names the run again.
 */
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { HttpError } from "../http/errors.ts";
import { bytes, json, pieces } from "../http/responses.ts";
import { deleteRun } from "../run/list.ts";
import { changeNotes, type RunNotes } from "../run/notes.ts";
import type { EpisodeNote } from "./api.ts";
import { linksOut } from "./paths.ts";
import type { RunView } from "./run-view.ts";
import { demonstrations, filmOfAll, MAX_SELECTED } from "./selection.ts";
import type { ViewerState } from "./state.ts";

export async function answerPost(
  state: ViewerState,
  view: RunView,
  rest: readonly string[],
  { body, signal }: { readonly body: unknown; readonly signal: AbortSignal },
): Promise<Response> {
  if (!isJsonObject(body)) throw new HttpError(400, "Send a JSON object.");
  const [area, key, part, ...more] = rest;
  if (more.length > 0) throw noRoute();
  if (key === undefined) {
    switch (area) {
      // These two only read.
      case "demonstrations":
        return pieces(demonstrations(view, keysIn(body)), {
          type: "application/x-ndjson",
          name: "demonstrations.jsonl",
        });
      case "film": {
        const keys = keysIn(body);
        const gif = await state.films.run(() => filmOfAll(view, keys), signal);
        return bytes(gif, { type: "image/gif", name: "episodes.gif" });
      }
      case "notes":
        await mayWrite(state, view);
        return json(await changeNotes(view.path, notesIn(body)));
      case "delete":
        await mayWrite(state, view);
        if (body.confirm !== view.id)
          throw new HttpError(400, `Name the run to delete it: { "confirm": "${view.id}" }.`);
        await state.forget(view.id);
        await deleteRun(view.path);
        return json({});
    }
  }
  if (area === "trajectories" && key !== undefined && part === "note") {
    await mayWrite(state, view);
    if ((await view.trajectory(key)) === undefined) throw new HttpError(404, "There is no such episode.");
    return json(await view.labels.set(key, noteIn(body)));
  }
  throw noRoute();
}

async function mayWrite(state: ViewerState, { path }: RunView): Promise<void> {
  if (!state.writable)
    throw new HttpError(403, "This viewer is read only: start it without --read-only to change runs.");
  if (state.folder === path)
    throw new HttpError(403, "This viewer shows one run: open the folder that it is in to change it.");
  const out = await linksOut(path);
  if (out.length > 0) throw new HttpError(403, `${out.join(", ")} leads out of this run, so nothing is written to it.`);
}

function keysIn({ keys }: JsonObject): string[] {
  const known = Array.isArray(keys) && keys.every((key) => typeof key === "string");
  if (!known || keys.length === 0 || keys.length > MAX_SELECTED)
    throw new HttpError(400, `Give keys, a list of 1 to ${MAX_SELECTED} episodes.`);
  return keys as string[];
}

function notesIn({ tags, note, star, archived }: JsonObject): Partial<RunNotes> {
  const list = Array.isArray(tags) && tags.every((tag) => typeof tag === "string") ? { tags: tags as string[] } : {};
  return {
    ...list,
    ...(typeof note === "string" && { note }),
    ...(typeof star === "boolean" && { star }),
    ...(typeof archived === "boolean" && { archived }),
  };
}

function noteIn({ label, comment }: { readonly [name: string]: Json | undefined }): Partial<EpisodeNote> {
  return { ...(typeof label === "string" && { label }), ...(typeof comment === "string" && { comment }) };
}

function noRoute(): HttpError {
  return new HttpError(404, "There is no such route.");
}

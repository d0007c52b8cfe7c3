/** Any site as a world to look at and to play: no reward, no success; it ends when the player stops. */
import type { WorldDefinition } from "../define.ts";
import { register } from "../registry.ts";
import { definePage } from "./spec.ts";

export const SITE = "site";
export const isSite = (name: string): boolean => /^https?:\/\//.test(name);

/** Makes the site known as `site`, and returns that id. A host other than this machine needs `allowNetwork`. */
export function registerSite(url: string, goal: string, allowNetwork: boolean): string {
  register(siteWorld(url, goal, allowNetwork));
  return SITE;
}

export function siteWorld(url: string, goal: string, allowNetwork: boolean): WorldDefinition {
  return definePage({
    id: SITE,
    summary: url,
    url,
    allowNetwork,
    task: goal,
    viewport: { width: 1024, height: 768 },
    maxTurns: 50,
    success: () => false,
  });
}

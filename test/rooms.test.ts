/** The house rules: a room imports only from rooms below it, worlds see the public contract alone, and the package's entries agree with its tree. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const src = join(root, "src");
const worlds = join(root, "worlds");

/** From the top of the house to the bottom; rooms on one floor do not import each other. */
const floors = [
  ["cli"],
  ["serve", "viewer", "evaluate"],
  ["train"],
  ["rollout"],
  ["wire"],
  ["http"],
  ["engine"],
  ["tinker"],
  ["model"],
  ["envs"],
  ["run"],
  ["images"],
  ["core"],
];
const floorOf = new Map(floors.flatMap((rooms, floor) => rooms.map((room) => [room, floor] as const)));

const isTest = (file: string) => /(\.(test|prove)|\/test-[\w-]+)\.ts$/.test(file);

function filesUnder(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? filesUnder(path) : path.endsWith(".ts") ? [path] : [];
  });
}

function importsOf(file: string): string[] {
  const code = readFileSync(file, "utf8");
  return [...code.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) =>
    resolve(dirname(file), match[1] as string),
  );
}

const roomOf = (file: string) => relative(src, file).split("/")[0] as string;

describe("the house", () => {
  test("every folder of src is a room of the blueprint", () => {
    const folders = readdirSync(src).filter((name) => statSync(join(src, name)).isDirectory());
    expect(folders.filter((name) => !floorOf.has(name))).toEqual([]);
  });

  test("a room imports only from rooms below it", () => {
    const wrong: string[] = [];
    for (const file of filesUnder(src)) {
      const room = roomOf(file);
      const floor = floorOf.get(room);
      if (floor === undefined || isTest(file)) continue;
      for (const target of importsOf(file)) {
        const other = roomOf(target);
        if (other === room || other === "index.ts" || target.startsWith(worlds)) continue;
        const below = (floorOf.get(other) ?? -1) > floor;
        if (!below) wrong.push(`${relative(root, file)} imports ${relative(root, target)}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  test("evaluate needs no training", () => {
    const users = filesUnder(join(src, "evaluate")).filter((file) => !isTest(file));
    expect(users.length).toBeGreaterThan(0);
    expect(users.filter((file) => importsOf(file).some((target) => roomOf(target) === "train"))).toEqual([]);
  });

  test("only the command line and the workers import the package's own entry", () => {
    const users = filesUnder(src).filter((file) => roomOf(file) !== "cli" && !isTest(file));
    const found = users.filter((file) => importsOf(file).includes(join(src, "index.ts")));
    expect(found.map((file) => relative(src, file))).toEqual(["rollout/worker-modules.ts"]);
  });

  test("worlds import only the index files of core, images and envs", () => {
    const contract = ["core", "images", "envs"].map((room) => join(src, room, "index.ts"));
    const wrong = filesUnder(worlds)
      .filter((file) => !isTest(file))
      .flatMap((file) =>
        importsOf(file)
          .filter((target) => !target.startsWith(worlds) && !contract.includes(target))
          .map((target) => `${relative(root, file)} imports ${relative(root, target)}`),
      );
    expect(wrong).toEqual([]);
  });

  test("only entries know the worlds: the front door, the workers and the command line", () => {
    const users = filesUnder(src).filter(
      (file) => !isTest(file) && importsOf(file).some((target) => target.startsWith(worlds)),
    );
    expect(users.map((file) => relative(src, file)).sort()).toEqual([
      "cli/program.ts",
      "index.ts",
      "rollout/worker-modules.ts",
    ]);
  });

  test("core depends on nothing but Node", () => {
    const foreign = filesUnder(join(src, "core"))
      .filter((file) => !isTest(file))
      .flatMap((file) =>
        [...readFileSync(file, "utf8").matchAll(/from "([^."][^"]*)"/g)].map((match) => match[1] as string),
      )
      .filter((name) => !name.startsWith("node:"));
    expect(foreign).toEqual([]);
  });

  test("every export of package.json is built from a room, and every room below the command line is exported", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      exports: Record<string, unknown>;
    };
    const rooms = readdirSync(src).filter((name) => name !== "cli" && existsSync(join(src, name, "index.ts")));
    const exported = Object.keys(manifest.exports).filter((name) => name !== "." && name !== "./package.json");
    expect(exported.sort()).toEqual(rooms.map((room) => `./${room}`).sort());
  });
});

describe("the rooms' doors", () => {
  test("list every name that they export, so that adding one is a decision", () => {
    const doors = readdirSync(src).flatMap((room) => {
      const door = join(src, room, "index.ts");
      return existsSync(door) ? [door] : [];
    });
    expect(doors.length).toBeGreaterThan(10);
    const open = doors.filter((door) => /export \*/.test(readFileSync(door, "utf8")));
    expect(open.map((door) => relative(root, door))).toEqual([]);
  });
});

describe("the front door", () => {
  test("has at most 64 names, each listed; the rest is in the rooms", () => {
    const code = readFileSync(join(src, "front-door.ts"), "utf8");
    expect(code).not.toMatch(/export \*/);
    const names = [...code.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap((match) =>
      (match[1] as string).split(",").flatMap((name) => name.trim() || []),
    );
    expect(names).toContain("train");
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeLessThanOrEqual(64);
  });
});

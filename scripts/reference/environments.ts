/** docs/reference/environments.md, from the registry: every id, its options and what its first frame measures. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type Definition,
  definitionOf,
  envOptionsSchema,
  isElsewhere,
  listEnvs,
  makeEnv,
  type ProtocolName,
  protocolNames,
  protocolOptions,
  type WorldDefinition,
  WorldEnv,
} from "../../src/envs/index.ts";
import { fieldTable, MADE, page, table } from "./page.ts";
import { fieldsOf } from "./schema.ts";

const images = join(import.meta.dirname, "../../docs/images");

export async function environmentsPage(): Promise<string> {
  const ids = [...new Set((await listEnvs()).map(({ id }) => id.split("/")[0] as string))].filter(
    (id) => !isElsewhere(id),
  );
  const sections: string[] = [];
  for (const id of ids) sections.push(await section(await definitionOf(id)));
  const [remote, openenv] = [await definitionOf("remote"), await definitionOf("openenv")];
  return page(
    MADE,
    "# Environments",
    "Every environment that Saccade ships, with its options. Set an option with `--set name=value` on the command line, or in `options` of a recipe's source. Worlds also take the [options of every world](#options-of-every-world). [Worlds and their originals](../internals/worlds.md) lists how they differ from VisGym's and VAGEN's, and what the oracle and random play score.",
    `Frame sizes are those of seed 0 with default options. \`saccade envs --json\` prints ids, options and defaults for programs.`,
    ids.map((id) => `[${id}](#${id})`).join(" · "),
    ...sections,
    "## remote",
    `${sentence(remote.summary)} See [remote environments](../guide/remote-environments.md).`,
    fieldTable(fieldsOf(remote.options)),
    "## openenv",
    `${sentence(openenv.summary)} See [other stacks](../guide/neighbours.md).`,
    fieldTable(fieldsOf(openenv.options)),
    "## Options of every world",
    "A world takes these options in addition to its own. `variant` chooses between the variants that a world lists.",
    fieldTable(fieldsOf(envOptionsSchema)),
    "## Protocols",
    'Every world works with every protocol. Choose one by name, or set its options: `protocol: { name: "think", strict: true }`.',
    ...protocolNames.flatMap(protocolSection),
  );
}

const REPLIES: Readonly<Record<ProtocolName, string>> = {
  tuple: "`('move', 0)`",
  keyword: "`<action>left</action>`",
  think: "`<think>…</think><answer>left, down</answer>`",
  "world-model": "`<observation>…</observation><think>…</think><answer>…</answer><prediction>…</prediction>`",
  "tool-call": '`<tool_call>{"name": "move", "arguments": {"direction": "right"}}</tool_call>`',
};

function protocolSection(name: ProtocolName): string[] {
  return [`### ${name}`, `A reply: ${REPLIES[name]}`, fieldTable(fieldsOf(protocolOptions[name]))];
}

async function section(definition: Definition): Promise<string> {
  const { id, summary } = definition;
  const image = existsSync(join(images, `${id}.gif`)) ? `![${id}](../images/${id}.gif)` : "";
  const facts = definition.kind === "env" ? await envFacts(definition.id) : await worldFacts(definition);
  const rows = fieldsOf(definition.options);
  return page(`## ${id}`, sentence(summary), image, facts, rows.length === 0 ? "" : fieldTable(rows)).trimEnd();
}

async function worldFacts(definition: WorldDefinition): Promise<string> {
  const { id, difficulties, variants, maxTurns, protocol, maxActions } = definition;
  if (definition.needs !== undefined) return neededFacts(definition);
  const names = difficulties === undefined ? [id] : Object.keys(difficulties).map((name) => `${id}/${name}`);
  const rows: string[][] = [];
  let [oracle, facts] = [false, false];
  for (const name of names) {
    const env = await makeEnv(name);
    if (!(env instanceof WorldEnv)) throw new Error(`${name} must be made of a world`);
    const difficulty = name.slice(id.length + 1);
    const preset = Object.entries(difficulties?.[difficulty] ?? {}).map(
      ([key, value]) => `\`${key}: ${JSON.stringify(value)}\``,
    );
    const turns = typeof maxTurns === "number" ? maxTurns : maxTurns[difficulty];
    rows.push([`\`${name}\``, await frameSize(env), String(turns), preset.join(", ")]);
    [oracle, facts] = [env.world.solve !== undefined, env.world.facts !== undefined];
    await env.close?.();
  }
  const lines = [
    `Default protocol: \`${protocol}\``,
    protocol === "think" || protocol === "world-model"
      ? `up to ${maxActions} ${maxActions === 1 ? "action" : "actions"} a turn`
      : "",
    `oracle: ${oracle ? "yes" : "no"}`,
    `[world-model rewards](../guide/world-modelling.md): ${facts ? "yes" : "no"}`,
    variants === undefined
      ? ""
      : `variants: ${Object.keys(variants)
          .map((name) => `\`${name}\``)
          .join(", ")}`,
  ];
  return `${table(["id", "frame", "turns", "sets"], rows)}\n\n${lines.filter((line) => line !== "").join(" · ")}`;
}

/** A world that needs more than this package is described without being played. */
function neededFacts({ id, needs, difficulties = {}, variants, maxTurns, protocol }: WorldDefinition): string {
  const ids = Object.keys(difficulties).map((name) => `\`${id}/${name}\``);
  const lines = [
    `Needs ${needs}`,
    `turns: ${typeof maxTurns === "number" ? maxTurns : Object.values(maxTurns).join(", ")}`,
    `default protocol: \`${protocol}\``,
    ...(variants
      ? [
          `variants: ${Object.keys(variants)
            .map((name) => `\`${name}\``)
            .join(", ")}`,
        ]
      : []),
  ];
  return `${lines.join(" · ")}. See [browser worlds](../guide/browser.md).\n\nIds: ${ids.join(", ")}.`;
}

async function envFacts(id: string): Promise<string> {
  const env = await makeEnv(id);
  const size = await frameSize(env);
  const oracle = (await env.builtinReply?.("oracle", 0)) !== undefined;
  await env.close?.();
  return `Frame: ${size} · its own protocol · oracle: ${oracle ? "yes" : "no"}`;
}

async function frameSize(env: { reset(seed: number): unknown }): Promise<string> {
  const messages = (await env.reset(0)) as Awaited<ReturnType<WorldEnv["reset"]>>;
  for (const { content } of messages) {
    for (const part of content) if (part.type === "image") return `${part.image.width}×${part.image.height}`;
  }
  return "none";
}

const sentence = (text: string) => `${text[0]?.toUpperCase()}${text.slice(1)}.`;

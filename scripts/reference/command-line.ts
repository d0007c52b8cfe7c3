/** docs/reference/command-line.md, from the commands as commander knows them. */
import type { Command, Option } from "commander";
import { loadCommands } from "../../src/cli/commands.ts";
import { MADE, page, table } from "./page.ts";

export async function commandLinePage(): Promise<string> {
  const commands = await loadCommands();
  const groups = [...new Set(commands.map((command) => command.helpGroup()))];
  const overview = groups.map((group) => {
    const names = commands.filter((command) => command.helpGroup() === group).map((command) => command.name());
    return `- ${group} ${names.map((name) => `[${name}](#saccade-${name})`).join(", ")}`;
  });
  return page(
    MADE,
    "# Command line",
    "Every command also takes `--help`, and `--debug`, which shows where an error comes from. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
    overview.join("\n"),
    ...commands.flatMap((command) => section(command, "saccade", 2)),
  );
}

function section(command: Command, above: string, depth: number): string[] {
  const name = `${above} ${command.name()}`;
  const usage = [name, ...(command.commands.length > 0 ? ["<command>"] : []), ...args(command), "[options]"].join(" ");
  const inner = command.commands.flatMap((sub) => section(sub, name, depth + 1));
  return [
    `${"#".repeat(depth)} ${name}`,
    sentence(command.description()),
    inner.length > 0 && command.options.length === 0 ? "" : `\`\`\`text\n${usage}\n\`\`\``,
    argumentTable(command),
    optionTable(command),
    ...inner,
  ];
}

function args(command: Command): string[] {
  return command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
}

function argumentTable(command: Command): string {
  const rows = command.registeredArguments.map((argument, i) => [
    `\`${args(command)[i]}\``,
    cell(argument.description),
  ]);
  return rows.length === 0 ? "" : table(["argument", "meaning"], rows);
}

function optionTable(command: Command): string {
  const rows = command.options
    .filter((option) => !option.hidden)
    .map((option) => [`\`${option.flags}\``, defaultOf(option), cell(option.description) + choices(option)]);
  return rows.length === 0 ? "" : table(["option", "default", "meaning"], rows);
}

function defaultOf({ defaultValue, defaultValueDescription }: Option): string {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  const empty = defaultValue === undefined || (Array.isArray(defaultValue) && defaultValue.length === 0);
  return empty ? "" : `\`${typeof defaultValue === "string" ? defaultValue : JSON.stringify(defaultValue)}\``;
}

function choices({ argChoices }: Option): string {
  return argChoices === undefined ? "" : `: ${argChoices.map((choice) => `\`${choice}\``).join(", ")}`;
}

/** Names in angle brackets would be HTML. */
const cell = (text: string) => text.replaceAll("<", "\\<");
const sentence = (text: string) =>
  text === "" ? "" : `${text.startsWith("vLLM") ? "v" : text[0]?.toUpperCase()}${cell(text.slice(1))}.`;

/** What a recipe asks of an engine, against what the engine can do, before anything runs. Every error says what to change. */
import { ConfigError } from "../core/errors.ts";
import type { Capabilities } from "../engine/engine.ts";
import type { Recipe } from "./recipe.ts";
import { isPolicyLoss } from "./registry.ts";

export function checkEngine(recipe: Recipe, can: Capabilities, name: string): void {
  const refuse = (what: string, change: string) => {
    throw new ConfigError(`The engine "${name}" ${what}: ${change}.`);
  };
  const one = (names: readonly string[]) => names.join(", ") || "none";
  const learns = recipe.steps > 0;
  const loss = isPolicyLoss(recipe.loss.name) ? recipe.loss.name : "custom";
  if (can.start === "server" && typeof recipe.model !== "string")
    refuse(
      "trains the server's model",
      "name a folder with that model's tokenizer files (--tokenizer), which takes the place of model",
    );
  if (recipe.critic !== undefined && !can.critic)
    refuse("has no critic", "leave critic out and choose an advantage that compares siblings, such as grpo");
  if (recipe.lora !== undefined && !can.lora) refuse("trains all weights and no adapters", "leave lora out");
  if (recipe.lora === undefined && !can.fullTuning)
    refuse("trains adapters only", "set lora, such as { rank: 32, alpha: 64 }");
  // What an engine does not know by name goes to it as a function.
  if (learns && !can.losses.includes(loss) && !can.losses.includes("custom")) {
    const named = loss === "custom" ? `loss "${recipe.loss.name}", a function` : `loss "${loss}"`;
    refuse(`does not know the ${named}`, `choose one of ${one(can.losses)}`);
  }
  if (recipe.warmStart !== undefined && !can.losses.includes("cross-entropy"))
    refuse("can't learn from demonstrations", "leave warmStart out");
  if (learns && recipe.kl?.as === "loss" && !can.regularizers.includes("kl"))
    refuse("has no KL term in its losses", 'set kl.as to "reward"');
  if (learns && "entropy" in recipe.loss && recipe.loss.entropy && !can.regularizers.includes("entropy"))
    refuse("has no entropy bonus", "leave loss.entropy out");
  const temperatures = [learns ? recipe.sampling.temperature : 1, recipe.kl ? recipe.sampling.temperature : 1];
  if (!can.temperature && temperatures.some((temperature) => temperature !== 1))
    refuse("samples and scores at temperature 1 only", "set sampling.temperature to 1");
  for (const [field, optimizer] of [
    ["optimizer", learns ? recipe.optimizer : undefined],
    ["warmStart.optimizer", recipe.warmStart?.optimizer],
    ["critic.optimizer", recipe.critic?.optimizer],
  ] as const) {
    if (optimizer !== undefined && !can.optimizers.includes(optimizer.name))
      refuse(`has no optimizer "${optimizer.name}"`, `set ${field}.name to one of ${one(can.optimizers)}`);
    if (optimizer?.rates !== undefined && !can.groupRates)
      refuse("has one learning rate for all parts of a model", `leave ${field}.rates out`);
    if (optimizer !== undefined && optimizer.maxGradNorm > 0 && !can.gradientClipping)
      refuse("does not clip gradients", `set ${field}.maxGradNorm to 0`);
  }
  if (recipe.warmStart !== undefined && learns && !can.freshOptimizer)
    refuse(
      "can't reset its optimizer between warm start and reinforcement learning",
      "set steps to 0, or leave warmStart out",
    );
  if (can.weights === "inPlace" && recipe.maxStaleness > 0 && recipe.correction === undefined)
    refuse(
      "swaps weights while episodes are played",
      "set correction, or maxStaleness to 0, since a late episode is then of several policies",
    );
}

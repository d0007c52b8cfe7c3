/** Counters in Prometheus' text form, under vLLM's names where they mean the same. */

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384];

class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  add(value: number): void {
    this.#sum += value;
    this.#count += 1;
    for (const [i, bound] of this.#bounds.entries()) {
      if (value <= bound) this.#counts[i] = (this.#counts[i] as number) + 1;
    }
  }

  lines(name: string, labels: string): string[] {
    return [
      ...this.#bounds.map((bound, i) => `${name}_bucket{${labels},le="${bound}"} ${this.#counts[i]}`),
      `${name}_bucket{${labels},le="+Inf"} ${this.#count}`,
      `${name}_sum{${labels}} ${this.#sum}`,
      `${name}_count{${labels}} ${this.#count}`,
    ];
  }
}

export class ServeMetrics {
  running = 0;
  waiting = 0;
  promptTokens = 0;
  generationTokens = 0;
  readonly finished: Record<string, number> = { stop: 0, length: 0, abort: 0, error: 0 };
  readonly histograms = {
    "vllm:time_to_first_token_seconds": new Histogram(SECONDS),
    "vllm:e2e_request_latency_seconds": new Histogram(SECONDS),
    "vllm:request_prompt_tokens": new Histogram(TOKENS),
    "vllm:request_generation_tokens": new Histogram(TOKENS),
  };

  observe(name: keyof ServeMetrics["histograms"], value: number): void {
    this.histograms[name].add(value);
  }

  text(model: string, more: Readonly<Record<string, number>> = {}): string {
    const labels = `model_name="${model.replace(/["\\\n]/g, "_")}",engine="0"`;
    const gauges = { "vllm:num_requests_running": this.running, "vllm:num_requests_waiting": this.waiting, ...more };
    const counters = {
      "vllm:prompt_tokens_total": this.promptTokens,
      "vllm:generation_tokens_total": this.generationTokens,
    };
    const lines: string[] = [];
    const one = (kind: string, name: string, value: number) =>
      lines.push(`# TYPE ${name} ${kind}`, `${name}{${labels}} ${value}`);
    for (const [name, value] of Object.entries(gauges)) one("gauge", name, value);
    for (const [name, value] of Object.entries(counters)) one("counter", name, value);
    lines.push("# TYPE vllm:request_success_total counter");
    for (const [reason, count] of Object.entries(this.finished)) {
      lines.push(`vllm:request_success_total{${labels},finished_reason="${reason}"} ${count}`);
    }
    for (const [name, histogram] of Object.entries(this.histograms)) {
      lines.push(`# TYPE ${name} histogram`, ...histogram.lines(name, labels));
    }
    return `${lines.join("\n")}\n`;
  }
}

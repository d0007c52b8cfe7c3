/** Conformance with every world at full length: 500 seeds and 100,000 replies for the slow ones too. `-- conformance -t navigation` proves one world. */
process.env.SACCADE_CONFORMANCE = "full";
await import("./conformance.test.ts");

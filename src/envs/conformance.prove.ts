/** Conformance with every world at full length: 500 seeds and 100,000 replies for the slow ones too. `-- conformance -t navigation` proves one world, `SACCADE_SHARE=3/16` a sixteenth of each. */
process.env.SACCADE_CONFORMANCE = "full";
await import("./conformance.test.ts");

/** `npm run prove -- neighbours`: the tests of `neighbours.test.ts` with 10,000 faulty messages on each wire. */
process.env.SACCADE_FAULTS = "10000";
await import("./neighbours.test.ts");

/** A run that a sweep started ends when the sweep is gone, however it went: the channel between the two closes. A run folder can be left at any instant. */

export const WITH_PARENT = "SACCADE_WITH_PARENT";

export function endWithParent(): void {
  if (process.env[WITH_PARENT] !== "1") return;
  const end = () => process.kill(process.pid, "SIGKILL");
  // It may have gone while this process started.
  if (!process.connected) end();
  process.once("disconnect", end);
  // The channel alone keeps no process waiting.
  process.channel?.unref();
}

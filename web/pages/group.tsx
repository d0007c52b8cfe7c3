/** The siblings of one episode side by side: same seed, same start, one column each, aligned by turn and coloured by advantage. */
import { Fragment } from "preact";
import type { GroupReply } from "../../src/viewer/api.ts";
import type { RunPageProps } from "../app.tsx";
import { count, number, signed } from "../format.ts";
import { useKeys } from "../keys.tsx";
import { Actions, Advantage, Frame, Outcome, Scroll, Show, strength } from "../parts.tsx";
import { go, href } from "../route.ts";
import { useLoad, useSource } from "../use.ts";

export function GroupPage({ run, route, live }: RunPageProps) {
  const source = useSource();
  const key = route.path[3] ?? "";
  const group = useLoad(() => source.group(run, key), [run, key, live.trajectories]);
  useKeys("Group", [
    { keys: ["Escape", "g"], does: "back to the episode", run: () => go(href(["run", run, "episode", key])) },
  ]);
  return <Show of={group}>{(value) => <Siblings run={run} group={value} />}</Show>;
}

function Siblings({ run, group }: { run: string; group: GroupReply }) {
  const { members, divergence } = group;
  const first = members[0]?.row;
  const rewards = members.map(({ row }) => row.reward);
  const turns = Math.max(0, ...members.map(({ record }) => record.turns.length));
  const columns = { gridTemplateColumns: `2.5rem repeat(${members.length}, minmax(8.5rem, 13.5rem))` };
  return (
    <div class="page">
      <div class="page-head">
        <h2>
          {first?.env} <span class="faint">seed {first?.seed}</span>
        </h2>
        <span class="faint">
          step {group.step} · {count(members.length, "kept sibling")} · rewards {number(Math.min(...rewards))} to{" "}
          {number(Math.max(...rewards))}
        </span>
        <span class="space" />
        <span class="key">
          <i class="minus" aria-hidden="true" /> below the group
          <i class="plus" aria-hidden="true" /> above it
        </span>
      </div>
      <Scroll label="Siblings, aligned by turn">
        <div class="siblings" style={columns}>
          <span class="corner" />
          {members.map(({ row }) => (
            <a
              key={row.key}
              class={`sibling-head ${tint(row.advantage)}`}
              style={strength(row.advantage)}
              href={href(["run", run, "episode", row.key])}
            >
              <strong>sibling {row.sibling}</strong>
              <Outcome row={row} />
              <span>reward {number(row.reward)}</span>
              <Advantage value={row.advantage} />
            </a>
          ))}
          {Array.from({ length: turns }, (_, turn) => (
            <Fragment key={turn}>
              {turn === divergence && (
                <div class="divergence" role="note">
                  <span>Here they part: turn {turn}</span>
                </div>
              )}
              <span class="turn-label">{turn}</span>
              {members.map(({ row, record }) => {
                const played = record.turns[turn];
                if (played === undefined) return <span key={row.key} class="cell-over" />;
                return (
                  <a
                    key={row.key}
                    class={`sibling-turn ${tint(row.advantage)}`}
                    style={strength(row.advantage)}
                    href={href(["run", run, "episode", row.key, turn])}
                    title={played.reply}
                  >
                    <Frame
                      run={run}
                      hash={(played.modelFrames ?? played.frames)[0]}
                      alt={`sibling ${row.sibling}, turn ${turn}`}
                      class="medium"
                    />
                    <span class="read">
                      <Actions turn={played} />
                    </span>
                    {played.reward !== 0 && <small>{signed(played.reward)}</small>}
                  </a>
                );
              })}
            </Fragment>
          ))}
        </div>
      </Scroll>
      {divergence === undefined && members.length > 1 && (
        <p class="faint">They never part: every sibling did the same.</p>
      )}
    </div>
  );
}

function tint(advantage: number | undefined): string {
  return advantage === undefined ? "" : advantage < 0 ? "minus" : "plus";
}

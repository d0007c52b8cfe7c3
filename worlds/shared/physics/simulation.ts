/**
 * MuJoCo in WebAssembly, loaded when a world first needs it. A model is compiled once per text and shared; a `Simulation`
 * is one state of it. The engine has one thread and no randomness, so equal states and actions give equal bits, and
 * `state` holds all that the future depends on (what the solver starts from included).
 */
import { EnvError, errorMessage } from "../../../src/core/index.ts";
import type { Vec3 } from "../render3d/matrix.ts";

/** What we use of the package; its arrays are views of memory that may move, so they are fetched anew at each use. */
type Native = { delete(): void };
type Floats = Float64Array;
export type Model = Native & {
  readonly nq: number;
  readonly ngeom: number;
  readonly eq_data: Floats;
  readonly eq_type: Int32Array;
  readonly neq: number;
  readonly jnt_qposadr: Int32Array;
  readonly jnt_dofadr: Int32Array;
  readonly body_mocapid: Int32Array;
  readonly geom_type: Int32Array;
  readonly geom_size: Floats;
  readonly geom_rgba: Float32Array;
  readonly geom_bodyid: Int32Array;
  readonly geom_dataid: Int32Array;
  readonly geom_matid: Int32Array;
  readonly mat_rgba: Float32Array;
  readonly mesh_vertadr: Int32Array;
  readonly mesh_vertnum: Int32Array;
  readonly mesh_faceadr: Int32Array;
  readonly mesh_facenum: Int32Array;
  readonly mesh_vert: Float32Array;
  readonly mesh_face: Int32Array;
};
export type Data = Native & {
  time: number;
  readonly qpos: Floats;
  readonly qvel: Floats;
  readonly ctrl: Floats;
  readonly mocap_pos: Floats;
  readonly mocap_quat: Floats;
  readonly xpos: Floats;
  readonly xquat: Floats;
  readonly site_xpos: Floats;
  readonly geom_xpos: Floats;
  readonly geom_xmat: Floats;
  readonly subtree_com: Floats;
};
type Buffer = Native & { GetView(): Floats };
type Mujoco = {
  readonly DoubleBuffer: new (size: number) => Buffer;
  readonly MjModel: { from_xml_string(text: string): Model; from_xml_path(path: string): Model };
  readonly MjData: new (model: Model) => Data;
  readonly FS: { mkdirTree(path: string): void; writeFile(path: string, data: Uint8Array): void };
  mj_step(model: Model, data: Data): void;
  mj_forward(model: Model, data: Data): void;
  mj_resetData(model: Model, data: Data): void;
  mj_stateSize(model: Model, parts: number): number;
  mj_getState(model: Model, data: Data, into: Buffer, parts: number): void;
  mj_setState(model: Model, data: Data, from: number[], parts: number): void;
  mj_name2id(model: Model, kind: number, name: string): number;
};

/** MuJoCo's numbers for kinds of things, and for "all that integration depends on". */
const KINDS = { body: 1, joint: 3, geom: 5, site: 6, actuator: 19 } as const;
const ALL = 16383;
const WELD = 1;

let loading: Promise<Mujoco> | undefined;

function loadMujoco(): Promise<Mujoco> {
  loading ??= import("@mujoco/mujoco").then(async ({ default: make }) => (await make()) as unknown as Mujoco);
  return loading;
}

const compiled = new Map<string, Promise<{ readonly mujoco: Mujoco; readonly model: Model }>>();
const freed = new FinalizationRegistry<Data>((data) => data.delete());

/** A fresh state of the model that this MJCF text describes. */
export async function simulate(text: string): Promise<Simulation> {
  const { mujoco, model } = await compile(text, (it) => it.MjModel.from_xml_string(text));
  return new Simulation(mujoco, model);
}

/** The same for a model in files: `files` are laid out under one folder, and `main` is read. */
export async function simulateFiles(
  files: ReadonlyMap<string, Uint8Array>,
  main: string,
  key: string,
): Promise<Simulation> {
  const { mujoco, model } = await compile(key, (it) => {
    const root = `/models/${compiled.size}`;
    for (const [path, bytes] of files) {
      const full = `${root}/${path}`;
      it.FS.mkdirTree(full.slice(0, full.lastIndexOf("/")));
      it.FS.writeFile(full, bytes);
    }
    return it.MjModel.from_xml_path(`${root}/${main}`);
  });
  return new Simulation(mujoco, model);
}

function compile(key: string, make: (mujoco: Mujoco) => Model) {
  const known = compiled.get(key);
  if (known !== undefined) return known;
  const result = loadMujoco().then((mujoco) => {
    try {
      return { mujoco, model: make(mujoco) };
    } catch (error) {
      throw new EnvError(`MuJoCo can't read the model: ${errorMessage(error)}. Check the MJCF.`);
    }
  });
  compiled.set(key, result);
  return result;
}

export class Simulation {
  readonly model: Model;
  readonly data: Data;
  readonly #mujoco: Mujoco;
  readonly #size: number;

  constructor(mujoco: Mujoco, model: Model) {
    this.#mujoco = mujoco;
    this.model = model;
    this.data = new mujoco.MjData(model);
    this.#size = mujoco.mj_stateSize(model, ALL);
    freed.register(this, this.data, this);
  }

  /** Another state of the same model, equal to this one now. */
  copy(): Simulation {
    const other = new Simulation(this.#mujoco, this.model);
    other.state = this.state;
    return other;
  }

  /** Gives the memory back; it can't be used any more. */
  close(): void {
    if (freed.unregister(this)) this.data.delete();
  }

  step(count: number): void {
    for (let i = 0; i < count; i++) this.#mujoco.mj_step(this.model, this.data);
  }

  /** Brings positions of bodies, sites and geoms up to date with the joints. */
  forward(): void {
    this.#mujoco.mj_forward(this.model, this.data);
  }

  reset(): void {
    this.#mujoco.mj_resetData(this.model, this.data);
  }

  get state(): number[] {
    const buffer = new this.#mujoco.DoubleBuffer(this.#size);
    this.#mujoco.mj_getState(this.model, this.data, buffer, ALL);
    const values = [...buffer.GetView()];
    buffer.delete();
    return values;
  }

  set state(values: readonly number[]) {
    if (values.length !== this.#size) {
      throw new EnvError(
        `The saved physics has ${values.length} numbers, this model ${this.#size}: it is another model's.`,
      );
    }
    const copy = [...values];
    this.#mujoco.mj_setState(this.model, this.data, copy, ALL);
    this.forward();
    // Going forward leaves another start for the solver behind; this makes the future the same to the bit.
    this.#mujoco.mj_setState(this.model, this.data, copy, ALL);
  }

  id(kind: keyof typeof KINDS, name: string): number {
    const id = this.#mujoco.mj_name2id(this.model, KINDS[kind], name);
    if (id < 0) throw new EnvError(`The model has no ${kind} "${name}": add it, the world needs it.`);
    return id;
  }

  /** Lets welds hold bodies where they are put, not where they were when the model was compiled. */
  loosenWelds(): void {
    const { neq, eq_type, eq_data } = this.model;
    for (let i = 0; i < neq; i++) {
      if (eq_type[i] === WELD) eq_data.set([0, 0, 0, 0, 0, 0, 1], i * (eq_data.length / neq));
    }
  }
}

export function vec3(values: Floats, index: number): Vec3 {
  return [values[index * 3] as number, values[index * 3 + 1] as number, values[index * 3 + 2] as number];
}

/**
 * A seven-joint arm on a wheeled base, with a gripper of two parallel fingers, as MJCF. Lengths, masses and inertias are
 * those of the Fetch research robot, and sites, bodies and joints have the names that MuJoCo's Fetch tasks use, so it moves
 * as that robot does; its looks are our own, made of boxes, cylinders and capsules that touch nothing. Only the fingers
 * collide. The gripper is led by a mocap body welded to it.
 */

type Numbers = readonly number[];

type Link = {
  readonly name: string;
  readonly at: Numbers;
  readonly mass: number;
  readonly inertia: Numbers;
  readonly center: Numbers;
  /** The axes of the inertia, w x y z. */
  readonly principal?: string;
  /** Joints, as attributes after the name. */
  readonly joints?: Readonly<Record<string, string>>;
  /** Shapes to look at, as MJCF geoms without their flags. */
  readonly looks?: readonly string[];
  readonly links?: readonly Link[];
};

const WHITE = "0.93 0.93 0.95 1";
const GREY = "0.36 0.36 0.38 1";
const STEEL = "0.58 0.6 0.64 1";
const BLUE = "0.09 0.5 0.77 1";
const DARK = "0.16 0.17 0.2 1";

const capsule = (length: number, radius: number, color: string) =>
  `type="capsule" fromto="0 0 0 ${length} 0 0" size="${radius}" rgba="${color}"`;
const cylinder = (from: string, to: string, radius: number, color: string) =>
  `type="cylinder" fromto="${from} ${to}" size="${radius}" rgba="${color}"`;
const box = (at: string, half: string, color: string) => `type="box" pos="${at}" size="${half}" rgba="${color}"`;
/** The hub of a joint that turns about the link's y axis. */
const hub = (radius: number, color: string) => cylinder("0 -0.06 0", "0 0.06 0", radius, color);

const FINGER_JOINT =
  'type="slide" armature="100" damping="1000" limited="true" range="0 0.05" solimplimit="0.99 0.999 0.01" solreflimit="0.01 1"';
const SLIDE = 'type="slide" armature="0.0001" damping="1e+11"';

/** A shape that is seen and touches nothing. */
const look = (shape: string) => `<geom ${shape} contype="0" conaffinity="0" group="1"/>`;

/** What collides is as long as the original's finger; a knuckle that only shows joins it to the palm. */
function finger(side: "r" | "l"): string {
  const sign = side === "r" ? 1 : -1;
  return (
    `<body name="robot0:${side}_gripper_finger_link" pos="0 ${sign * 0.0159} 0">` +
    '<inertial pos="-0.01 0 0" mass="4" diaginertia="0.1 0.1 0.1"/>' +
    `<joint name="robot0:${side}_gripper_finger_joint" axis="0 ${sign} 0" ${FINGER_JOINT}/>` +
    `<geom name="robot0:${side}_gripper_finger_link" type="box" pos="0 ${sign * -0.008} 0" size="0.0385 0.007 0.0135" ` +
    `condim="4" friction="1 0.05 0.01" margin="0.001" solimp="0.99 0.99 0.01" solref="0.01 1" rgba="${GREY}"/>` +
    `${look(box(`-0.0545 ${sign * -0.008} 0`, "0.0165 0.007 0.0135", DARK))}</body>`
  );
}

/** The last link; what hangs on it is written out below. */
const GRIPPER: Link = {
  name: "gripper_link",
  at: [0.1664, 0, 0],
  mass: 1.5175,
  inertia: [0.0024, 0.0019, 0.0013],
  center: [-0.09, -0.0001, -0.0017],
  principal: "0 0.7071 0 0.7071",
  looks: [box("-0.085 0 0", "0.022 0.068 0.02", STEEL), cylinder("-0.165 0 0", "-0.1 0 0", 0.028, GREY)],
};

const ARM: Link = {
  name: "shoulder_pan_link",
  at: [0.1195, 0, 0.3486],
  mass: 2.5587,
  inertia: [0.009, 0.0086, 0.0041],
  center: [0.0927, -0.0056, 0.0564],
  principal: "-0.1364 0.7624 -0.1562 0.613",
  joints: { shoulder_pan: 'axis="0 0 1" range="-1.6056 1.6056"' },
  looks: [
    cylinder("0 0 -0.02", "0 0 0.07", 0.062, GREY),
    `type="capsule" fromto="0 0 0.06 0.117 0 0.06" size="0.055" rgba="${WHITE}"`,
  ],
  links: [
    {
      name: "shoulder_lift_link",
      at: [0.117, 0, 0.06],
      mass: 2.6615,
      inertia: [0.0116, 0.0112, 0.0023],
      center: [0.1432, 0.0072, -0.0001],
      principal: "0.4382 0.4382 0.555 0.555",
      joints: { shoulder_lift: 'axis="0 1 0" range="-1.221 1.518"' },
      looks: [hub(0.062, DARK), capsule(0.219, 0.052, BLUE)],
      links: [
        {
          name: "upperarm_roll_link",
          at: [0.219, 0, 0],
          mass: 2.3311,
          inertia: [0.0047, 0.0045, 0.0019],
          center: [0.1165, 0.0014, 0],
          principal: "-0.0136 0.707 0.0136 0.707",
          joints: { upperarm_roll: 'axis="1 0 0" limited="false"' },
          looks: [capsule(0.133, 0.05, WHITE)],
          links: [
            {
              name: "elbow_flex_link",
              at: [0.133, 0, 0],
              mass: 2.1299,
              inertia: [0.0086, 0.0084, 0.002],
              center: [0.1279, 0.0073, 0],
              principal: "0.4332 0.4332 0.5589 0.5589",
              joints: { elbow_flex: 'axis="0 1 0" range="-2.251 2.251"' },
              looks: [hub(0.058, DARK), capsule(0.197, 0.048, BLUE)],
              links: [
                {
                  name: "forearm_roll_link",
                  at: [0.197, 0, 0],
                  mass: 1.6563,
                  inertia: [0.0035, 0.0031, 0.0015],
                  center: [0.1097, -0.0266, 0],
                  principal: "-0.0715 0.7035 0.0715 0.7035",
                  joints: {
                    forearm_roll: 'axis="1 0 0" limited="false" armature="2.7538" damping="3.5247" stiffness="10"',
                  },
                  looks: [capsule(0.1245, 0.045, WHITE)],
                  links: [
                    {
                      name: "wrist_flex_link",
                      at: [0.1245, 0, 0],
                      mass: 1.725,
                      inertia: [0.0042, 0.0042, 0.0018],
                      center: [0.0882, 0.0009, -0.0001],
                      principal: "0.4895 0.4895 0.5103 0.5103",
                      joints: { wrist_flex: 'axis="0 1 0" range="-2.16 2.16"' },
                      looks: [hub(0.052, DARK), capsule(0.1, 0.036, BLUE)],
                      links: [
                        {
                          name: "wrist_roll_link",
                          at: [0.1385, 0, 0],
                          mass: 0.1354,
                          inertia: [0.0001, 0.0001, 0.0001],
                          center: [0.0095, 0.0004, -0.0002],
                          joints: { wrist_roll: 'axis="1 0 0" limited="false"' },
                          links: [GRIPPER],
                        },
                      ],
                    },
                  ],
                },
              ],
            },
          ],
        },
      ],
    },
  ],
};

const ROBOT: Link = {
  name: "base_link",
  at: [0.2869, 0.2641, 0],
  mass: 70.1294,
  inertia: [1.2869, 1.2236, 0.9868],
  center: [-0.0036, 0, 0.0014],
  principal: "0.7605 -0.0133 -0.0061 0.6491",
  joints: { slide0: `axis="1 0 0" ${SLIDE}`, slide1: `axis="0 1 0" ${SLIDE}`, slide2: `axis="0 0 1" ${SLIDE}` },
  looks: [
    cylinder("0 0 0.06", "0 0 0.3", 0.27, GREY),
    cylinder("0 0 0.3", "0 0 0.35", 0.23, WHITE),
    cylinder("0 -0.22 0.06", "0 -0.17 0.06", 0.06, DARK),
    cylinder("0 0.17 0.06", "0 0.22 0.06", 0.06, DARK),
  ],
  links: [
    {
      name: "torso_lift_link",
      at: [-0.0869, 0, 0.3774],
      mass: 10.7796,
      inertia: [0.3365, 0.3354, 0.0943],
      center: [-0.0013, -0.0009, 0.2935],
      principal: "0.9993 -0.0006 0.0336 0.0185",
      joints: { torso_lift: 'type="slide" axis="0 0 1" damping="1e+07" range="0.0386 0.3861"' },
      looks: [box("0 0 0.3", "0.07 0.12 0.29", WHITE), box("0.06 0 0.38", "0.05 0.09 0.1", GREY)],
      links: [
        {
          name: "head_pan_link",
          at: [0.0531, 0, 0.603],
          mass: 2.2556,
          inertia: [0.0185, 0.0128, 0.0095],
          center: [0.0321, 0.0161, 0.039],
          principal: "0.5148 0.5451 -0.453 0.4823",
          joints: { head_pan: 'axis="0 0 1" range="-1.57 1.57"' },
          looks: [cylinder("0 0 -0.02", "0 0 0.05", 0.06, GREY)],
          links: [
            {
              name: "head_tilt_link",
              at: [0.1425, 0, 0.058],
              mass: 0.9087,
              inertia: [0.0063, 0.0059, 0.0014],
              center: [0.0081, 0.0025, 0.0113],
              principal: "0.6458 0.66 -0.274 0.2689",
              joints: { head_tilt: 'axis="0 1 0" damping="1000" range="-0.76 1.45" ref="0.06"' },
              looks: [box("-0.07 0 0.02", "0.1 0.11 0.05", BLUE), box("0.035 0 0.02", "0.006 0.09 0.03", DARK)],
            },
          ],
        },
        ARM,
      ],
    },
    {
      name: "estop_link",
      at: [-0.1246, 0.2389, 0.3113],
      mass: 0.002,
      inertia: [1e-6, 1e-6, 1e-6],
      center: [0, 0, 0],
    },
    {
      name: "torso_fixed_link",
      at: [-0.0869, 0, 0.3774],
      mass: 13.2775,
      inertia: [0.3865, 0.3394, 0.1009],
      center: [-0.0722, 0.0057, 0.2656],
      principal: "0.9995 0.0249 0.0177 0.011",
      looks: [box("-0.09 0 0.2", "0.05 0.14 0.22", BLUE)],
    },
  ],
};

function linkText(link: Link): string {
  const joints = Object.entries(link.joints ?? {}).map(([name, rest]) => {
    const full = name.startsWith("slide") ? name : `${name}_joint`;
    const usual = rest.includes("armature=") ? "" : ' armature="1"';
    const damped = rest.includes("damping=") ? "" : ' damping="50"';
    return `<joint name="robot0:${full}" ${rest}${usual}${damped}/>`;
  });
  const looks = (link.looks ?? []).map(look);
  const end =
    link === GRIPPER
      ? `${finger("r")}${finger("l")}<site name="robot0:grip" pos="0.02 0 0" size="0.02" rgba="0 0 0 0"/>`
      : "";
  return (
    `<body name="robot0:${link.name}" pos="${link.at.join(" ")}">` +
    `<inertial pos="${link.center.join(" ")}" mass="${link.mass}" diaginertia="${link.inertia.join(" ")}"${link.principal === undefined ? "" : ` quat="${link.principal}"`}/>` +
    `${joints.join("")}${looks.join("")}${(link.links ?? []).map(linkText).join("")}${end}</body>`
  );
}

const FINGERS = ["robot0:r_gripper_finger_link", "robot0:l_gripper_finger_link"] as const;

export type ArmScene = {
  /** Bodies, geoms and sites beside the robot. */
  readonly bodies: string;
  /** Motors at the fingers; without them something else holds the fingers. */
  readonly motors: boolean;
  /** Seconds; the original's is 0.002. */
  readonly timestep?: number;
  /** Pairs of bodies that pass through each other. */
  readonly apart?: readonly (readonly [string, string])[];
};

/** A whole model: the arm, led by the body `robot0:mocap`, and what else is in the scene. Steps of 2 ms. */
export function armModel({ bodies, motors, timestep = 0.002, apart = [] }: ArmScene): string {
  const motor = (side: string) =>
    `<position name="robot0:${side}_gripper_finger_joint" joint="robot0:${side}_gripper_finger_joint" kp="30000" ctrllimited="true" ctrlrange="0 0.2"/>`;
  return (
    `<mujoco model="arm"><compiler angle="radian"/><option timestep="${timestep}"/><size memory="1M"/><worldbody>` +
    '<body name="robot0:mocap" mocap="true"/>' +
    `${linkText(ROBOT)}${bodies}</worldbody>` +
    `<contact>${[FINGERS, ...apart].map(([a, b]) => `<exclude body1="${a}" body2="${b}"/>`).join("")}</contact>` +
    '<equality><weld body1="robot0:mocap" body2="robot0:gripper_link" solimp="0.9 0.95 0.001" solref="0.02 1"/></equality>' +
    `${motors ? `<actuator>${motor("l")}${motor("r")}</actuator>` : ""}</mujoco>`
  );
}

/** What the words of a description do, for the reader: who is spoken of, where things are, what links, denies or goes on. */

export const VERTICAL = ["above", "same row", "below"] as const;
export const HORIZONTAL = ["left", "same column", "right"] as const;
export type Vertical = (typeof VERTICAL)[number];
export type Horizontal = (typeof HORIZONTAL)[number];

export type Value = Vertical | Horizontal;
export type Axis = "vertical" | "horizontal";

const set = (words: string) => new Set(words.split(" ").filter(Boolean));
export const PLAYER = set("i me myself you yourself player agent figure character hero we us avatar mine yours ours");
/** These never begin a statement: "for me", "mine". */
export const OBJECT_FORMS = set("me us mine yours ours");
export const NO_SUBJECT_AFTER = set("by for through where row column");
export const AUXILIARIES = set(
  "also now still currently then both each will would should can must may might could do does myself",
);
export const PRONOUNS = set("it this that they which");
export const ONES = set("one another other others first second third fourth latter former");
export const UNITS = set(
  "cell cells row rows column columns step steps square squares tile tiles space spaces block blocks move moves field fields",
);
export const POSSESSIVE = set("my your our");
export const DETERMINERS = set(
  "the a an my your our its their this that these those some any current present own very exact where single only nearest one another other next red yellow green blue dark brown grey gray golden wooden small big large",
);
export const LINKS = set("of from than to as with");
export const HANDS = set("hand side");
/** A new statement: what was denied before it is over. */
export const STATES = set("is are am was were lies sits stands remains stays");
export const COPULAS = set(
  "is are am was were be been being lies lie sits sit stands stand remains remain stays stay standing sitting resting rests rest placed located positioned situated found there will would should must may might can could has have seems appears ends shares share",
);
export const MOTIONS = set(
  "move moves moving moved push pushes pushing pushed go goes going went step steps stepping walk walks walking head heads heading slide slides sliding shift shifts shifting pull pulls travel action look looks looking get gets getting reach reaching",
);
const NEGATIONS = set("not never neither nor without hardly nowhere wrong false untrue incorrect isnt arent cannot");
export const STILL_POSITIVE = set("far only just quite too mistaken wrong sure");
export const CONTRAST = set("but instead rather however");
export const SEPARATORS = set(", and or ; . : & plus another one");
export const SEEING = set("see sees seeing find finds notice notices spot spots observe observes show shows there");
export const DIRECT = set("directly straight exactly immediately due precisely");
export const COUNTS = new Map(
  ["both", "two", "three", "four", "five", "six", "seven", "eight"].map((word, i) => [word, Math.max(2, i + 1)]),
);
export const CONNECTORS = set(
  "and or nor but of to the a an on in at , - / bit little slightly somewhat further more also both one two three four five few several some as well side hand diagonally then too off towards toward out away",
);
export const ABSOLUTE = set("corner corners edge edges border wall walls half quadrant");
export const EDGES = set("top bottom upper lower left right");
export const PICTURE = set("board map grid lake room picture image frame screen puzzle area");
/** "lined up", "ends up": no direction. */
export const PARTICLE_VERBS = set(
  "end ends ended line lined lines lining show shows showed turn turns set sets come comes made make match matches",
);

const DIRECTIONS: Readonly<Record<Value, ReadonlySet<string>>> = {
  above: set(
    "above over atop up upward upwards upper north northern northerly northward northwards higher top overhead",
  ),
  below: set(
    "below under beneath underneath down downward downwards lower south southern southerly southward southwards bottom",
  ),
  left: set("left leftward leftwards lefthand west western westerly westward westwards"),
  right: set("right rightward rightwards righthand east eastern easterly eastward eastwards"),
  "same row": set(""),
  "same column": set(""),
};
/** These take what they speak of at once ("above me"); the others need a link ("left of me"). */
export const PREPOSITIONS = set("above over atop below under beneath underneath");
export const COMPASS = new Map([
  ["N", "north"],
  ["S", "south"],
  ["E", "east"],
  ["W", "west"],
  ["NE", "northeast"],
  ["NW", "northwest"],
  ["SE", "southeast"],
  ["SW", "southwest"],
]);
export const COMPOUND = /^(north|south|up|top|upper|lower|bottom|down)(east|west|left|right)$/;
export const OPPOSITE: Readonly<Record<Value, Value>> = {
  above: "below",
  below: "above",
  left: "right",
  right: "left",
  "same row": "same row",
  "same column": "same column",
};
export const ROWS = set("row level height rank altitude elevation latitude");
export const COLUMNS = set("column file longitude");
/** Rows or columns, as "vertical" or "horizontal" beside them says. */
export const LINES = set("line axis");
export const CELLS = set("cell spot square place position tile location field point coordinates standpoint");
/** What says that two rows are one: before the noun ("my own row"), or as what is said of it ("its row is mine"). */
export const SAMENESS = set(
  "same my your our own identical equal shared common mine yours ours matches equals player's agent's figure's",
);
export const DIFFERENCE = set("different another other separate distinct unlike differs");
export const BEFORE_LINE = set(
  "the a an one very exact exactly single whole grid horizontal vertical current present that this its of",
);
/** Between a row and whose it is: "the row that is also occupied by the player". */
export const AFTER_LINE = set(
  "as with of that which where in on the is am are also currently now occupied by containing through along passing too to into a an both",
);
export const OFFSETS = set("offset shift difference distance displacement gap deviation component");
/** All that may stand in a clause that only goes on with the last thing: "further left, too". */
export const ELLIPSIS = set(
  "also too again slightly somewhat bit little further more well relative seen from of and , - / : on in at to the a an my as i me is horizontally vertically vertical horizontal direction terms axis side hand it's",
);

export const WORD_VALUE = new Map<string, Value>(
  Object.entries(DIRECTIONS).flatMap(([value, words]) =>
    [...words].map((word): [string, Value] => [word, value as Value]),
  ),
);
export const isConnector = (word: string) =>
  CONNECTORS.has(word) || UNITS.has(word) || DIRECT.has(word) || /^\d+$/.test(word);
export const isNegation = (word: string) => NEGATIONS.has(word) || word.endsWith("n't");
export const axisOf = (value: Value): Axis =>
  (VERTICAL as readonly string[]).includes(value) ? "vertical" : "horizontal";

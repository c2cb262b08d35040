/** The combinations of layers that somebody may install, and what each must be able to do. */

/**
 * @typedef {object} Program
 * @property {string} file in `programs/`, without its ending
 * @property {string} [needs] environment variable with the path of what it needs; without it the program is skipped
 * @property {"nats"} [server] a server to run beside it
 */

/**
 * @typedef {object} Installation one call of npm, and what works after it
 * @property {readonly string[]} packages ours
 * @property {readonly string[]} [others] by name and range
 * @property {readonly string[]} tree every package that may be there then, dependencies included
 * @property {boolean} native whether there is native code then
 * @property {readonly Program[]} programs
 */

/** The core and what it depends on. */
const CORE = ["kvcr-core", "@msgpack/msgpack", "xxhash-wasm"];
/** ZeroMQ for Node and what it depends on. */
const ZEROMQ = ["zeromq", "cmake-ts", "node-addon-api"];

/** @type {Readonly<Record<string, readonly Installation[]>>} */
export const projects = {
	core: [
		{
			packages: ["kvcr-core"],
			tree: CORE,
			native: false,
			programs: [{ file: "no-sockets" }, { file: "core" }],
		},
	],
	"core and zmq": [
		{
			packages: ["kvcr-core", "kvcr-transport-zmq"],
			tree: [...CORE, ...ZEROMQ, "kvcr-transport-zmq"],
			native: true,
			programs: [{ file: "zmq" }],
		},
	],
	"core and nats": [
		{
			packages: ["kvcr-core", "kvcr-transport-nats"],
			tree: [
				...[...CORE, "kvcr-transport-nats"],
				...["@nats-io/transport-node", "@nats-io/nats-core"],
				...["@nats-io/nkeys", "@nats-io/nuid", "tweetnacl"],
			],
			native: false,
			programs: [{ file: "nats", needs: "KVCR_NATS_SERVER", server: "nats" }],
		},
	],
	"core and vllm-adapter": [
		{
			packages: ["kvcr-core", "kvcr-vllm-adapter"],
			tree: [...CORE, "kvcr-vllm-adapter"],
			native: false,
			programs: [{ file: "vllm" }, { file: "vllm-without-zeromq" }],
		},
		{
			packages: [],
			others: ["zeromq@^6.8.0", "@msgpack/msgpack@^3.1.3"],
			tree: [...CORE, ...ZEROMQ, "kvcr-vllm-adapter"],
			native: true,
			programs: [{ file: "vllm-events" }],
		},
	],
	"core, nixl and zmq": [
		{
			packages: ["kvcr-core", "kvcr-nixl", "kvcr-transport-zmq"],
			tree: [
				...[...CORE, ...ZEROMQ, "kvcr-transport-zmq"],
				...["kvcr-nixl", "node-gyp-build"],
			],
			native: true,
			programs: [
				{ file: "nixl-absent" },
				{ file: "nixl", needs: "KVCR_NIXL_LIBRARY" },
			],
		},
	],
};

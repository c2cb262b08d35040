/** What holds for every archive: its size, and the versions it asks for. Each function gives a line per problem. */

/**
 * Most bytes of each package: packed, and unpacked. About a quarter above what they were when this was last looked
 * at, so that growth is noticed and decided on. Source maps are the larger half.
 *
 * @type {Readonly<Record<string, readonly [packed: number, unpacked: number]>>}
 */
const BUDGETS = {
	"kvcr-core": [1_050_000, 4_300_000],
	"kvcr-nixl": [320_000, 850_000],
	"kvcr-transport-nats": [110_000, 420_000],
	"kvcr-transport-zmq": [40_000, 190_000],
	"kvcr-vllm-adapter": [230_000, 880_000],
};

/** What must be in an archive besides JavaScript, types and papers. */
const PREBUILDS = [
	"prebuilds/linux-arm64/kvcr-nixl.node",
	"prebuilds/linux-x64/kvcr-nixl.node",
];

/**
 * @param {import("./pack.mjs").Packed} packed
 * @returns {string[]}
 */
export function sizeProblems({ name, packedBytes, unpackedBytes }) {
	const budget = BUDGETS[name];
	if (budget === undefined) return ["has no size budget; give it one"];
	const problems = [];
	if (packedBytes > budget[0])
		problems.push(`is ${packedBytes} bytes packed, allowed are ${budget[0]}`);
	if (unpackedBytes > budget[1])
		problems.push(
			`is ${unpackedBytes} bytes unpacked, allowed are ${budget[1]}`,
		);
	return problems;
}

/**
 * Nothing that would be compiled at the user's, and every prebuilt artefact where there are any.
 *
 * @param {import("./pack.mjs").Packed} packed
 * @returns {string[]}
 */
export function nativeProblems({ name, files, manifest }) {
	const expected = name === "kvcr-nixl" ? PREBUILDS : [];
	const found = files.filter((file) => file.endsWith(".node")).sort();
	const problems = [];
	if (found.join() !== expected.join())
		problems.push(
			`holds the native files [${found}], expected were [${expected}]`,
		);
	for (const file of files)
		if (/(^|\/)(binding\.gyp|CMakeLists\.txt)$|\.(cc|cpp|c|h)$/.test(file))
			problems.push(`holds ${file}, which npm or somebody else would compile`);
	for (const hook of ["preinstall", "install", "postinstall"])
		if (manifest.scripts?.[hook] !== undefined)
			problems.push(`runs a script at ${hook}`);
	return problems;
}

/**
 * Siblings are asked for by a caret range of the version they have, and what several packages use from
 * elsewhere is asked for by one range, so that an application gets one copy.
 *
 * @param {readonly import("./pack.mjs").Packed[]} all
 * @returns {string[]}
 */
export function rangeProblems(all) {
	const versions = new Map(all.map(({ name, version }) => [name, version]));
	/** @type {Map<string, { range: string, by: string }>} */
	const others = new Map();
	const problems = [];
	for (const { name: by, manifest } of all) {
		const wanted = Object.entries({
			...manifest.dependencies,
			...manifest.optionalDependencies,
			...manifest.peerDependencies,
		});
		for (const [name, range] of wanted) {
			const version = versions.get(name);
			if (version !== undefined) {
				if (range !== `^${version}`)
					problems.push(
						`${by} asks for ${name} ${range}, and that is at ${version}`,
					);
				continue;
			}
			if (!/^\^\d+\.\d+\.\d+$/.test(range))
				problems.push(`${by} asks for ${name} ${range}, not a caret range`);
			const other = others.get(name);
			if (other !== undefined && other.range !== range)
				problems.push(
					`${by} asks for ${name} ${range}, ${other.by} for ${other.range}`,
				);
			others.set(name, { range, by });
		}
	}
	return problems;
}

/**
 * Hint to placed while a hostile peer floods the source with control messages at full speed, beside the same without it.
 * To tell the flood from mere load, there is a third measurement: the hostile peer floods somebody else of the same machine.
 *
 * A stranger is somebody the source never heard of; a peer introduced itself, was served, and then turned hostile.
 * `--rounds` hints are counted for each of the three, in turns of which every one has some of all three.
 *
 * Run: `npm run bench -- flood [--channel zmq|nats] [--kind valid|random|mixed] [--as stranger|peer] [--rounds N]
 * [--json FILE]`
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startNats } from "../../packaging/nats.mjs";
import {
	type Figure,
	judge,
	percentile,
	printFigures,
	writeFigures,
} from "../lib/figures.js";
import { Destination } from "./destination.js";
import type { ChannelKind, Place } from "./shared.js";

/** Longest everything may take, in milliseconds. */
const LIMIT_MS = 180_000;
/** Time a flood gets to build up before anything is measured, in milliseconds. */
const BUILD_UP_MS = 300;
/** Each measurement is taken this often, in turns, so that the load of the machine is in all of them alike. */
const TURNS = 10;
/** Hints before the first that counts: the code is compiled by then. */
const WARM_UP = 2_000;

const { values } = parseArgs({
	options: {
		channel: { type: "string" },
		kind: { type: "string", default: "mixed" },
		as: { type: "string", default: "stranger" },
		rounds: { type: "string", default: "2500" },
		json: { type: "string" },
	},
});
const rounds = Math.ceil(Number(values.rounds) / TURNS);
const limit = setTimeout(() => {
	console.error(`flood: not done after ${LIMIT_MS / 1000} s`);
	process.exit(1);
}, LIMIT_MS);
const figures: Figure[] = [];
const channels: readonly ChannelKind[] =
	values.channel === undefined
		? ["zmq", "nats"]
		: [values.channel as ChannelKind];
for (const channel of channels) {
	if (channel === "nats" && !existsSync(process.env.KVCR_NATS_SERVER ?? "")) {
		console.log("nats: skipped, nats-server is not here");
		continue;
	}
	const server = channel === "nats" ? await startNats() : undefined;
	try {
		await measure({ channel, nats: server?.url ?? "" });
	} finally {
		await server?.stop();
	}
}
const judged = figures.map(judge);
printFigures(
	`hint to placed under a flood (${values.kind}, of a ${values.as})`,
	judged,
);
if (values.json !== undefined) writeFigures(values.json, judged);
clearTimeout(limit);

async function measure(place: Place): Promise<void> {
	const children = [
		start("source.ts", place),
		start("hostile.ts", place),
		start("bystander.ts", place),
	] as const;
	const [source, hostile, bystander] = children;
	try {
		const [[{ endpoint }], [{ endpoint: aside }]] = (await Promise.all([
			once(source, "message"),
			once(bystander, "message"),
			once(hostile, "message"),
		])) as [[{ endpoint: string }], [{ endpoint: string }], unknown];
		const destination = await Destination.start(place, endpoint);
		if (values.as === "peer") await ask(hostile, { join: endpoint });
		await destination.place(WARM_UP);
		const quiet: number[] = [];
		const elsewhere: number[] = [];
		const flooded: number[] = [];
		let failed = 0;
		let sent = 0;
		for (let turn = 0; turn < TURNS; turn += 1) {
			await ask(source, "calm");
			quiet.push(...(await destination.place(rounds)).ms);
			hostile.send({ flood: aside, kind: values.kind });
			await pause();
			elsewhere.push(...(await destination.place(rounds)).ms);
			await ask(hostile, "pause");
			await ask(source, "calm");
			hostile.send({ flood: endpoint, kind: values.kind });
			await pause();
			const under = await destination.place(rounds);
			flooded.push(...under.ms);
			console.log(
				`${place.channel}: turn ${turn + 1} of ${TURNS}: p50 ${percentile(quiet, 0.5).toFixed(1)} ms without, ${percentile(under.ms, 0.5).toFixed(1)} ms with the flood`,
			);
			failed += under.failed;
			sent += ((await ask(hostile, "pause")) as { sent: number }).sent;
		}
		const usage = (await ask(source, "usage")) as {
			rss: number;
			received: number;
			peers: number;
			counters: Record<string, number>;
		};
		for (const [name, count] of Object.entries(usage.counters))
			if (name.startsWith("kvcr_control_dropped"))
				console.log(`${place.channel}: source: ${name} ${count}`);
		const { channel } = place;
		for (const [name, share] of [
			["p50", 0.5],
			["p99", 0.99],
		] as const) {
			const reference = {
				name: `without, ${name}`,
				value: percentile(quiet, share) * 1000,
			};
			figures.push(
				{
					name: `${channel}: flooding somebody else, ${name}`,
					value: percentile(elsewhere, share) * 1000,
					unit: "us",
					reference,
				},
				{
					name: `${channel}: flooding the source, ${name}`,
					value: percentile(flooded, share) * 1000,
					unit: "us",
					reference,
					...(name === "p99" && { target: "<= 3" as const }),
				},
			);
		}
		figures.push(
			{
				// No target: what remains where the machine is as busy, but the flood goes elsewhere.
				name: `${channel}: flooding the source, p99, beside the same load`,
				value: percentile(flooded, 0.99) * 1000,
				unit: "us",
				reference: {
					name: "flooding somebody else, p99",
					value: percentile(elsewhere, 0.99) * 1000,
				},
			},
			{
				name: `${channel}: hints not placed under the flood`,
				value: failed,
				unit: "hints",
				target: "<= 0",
			},
			{ name: `${channel}: hostile messages sent`, value: sent, unit: "" },
			{
				name: `${channel}: messages the source read`,
				value: usage.received,
				unit: "",
			},
			{
				name: `${channel}: memory of the source`,
				value: usage.rss / 2 ** 20,
				unit: "MiB",
			},
			{
				name: `${channel}: peers the source keeps`,
				value: usage.peers,
				unit: "",
			},
		);
		await destination.close();
		for (const child of children) child.send("stop");
		await Promise.all(children.map((child) => once(child, "exit")));
	} finally {
		for (const child of children)
			if (child.exitCode === null) child.kill("SIGKILL");
	}
}

function pause(): Promise<void> {
	return new Promise((resolve) => setTimeout(resolve, BUILD_UP_MS));
}

function start(name: string, place: Place): ChildProcess {
	const program = fileURLToPath(new URL(name, import.meta.url));
	return fork(program, [JSON.stringify(place)]);
}

async function ask(
	child: ChildProcess,
	message: string | { readonly join: string },
): Promise<unknown> {
	const answered = once(child, "message");
	child.send(message);
	const [answer] = await answered;
	return answer;
}

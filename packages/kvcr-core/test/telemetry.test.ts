/** Counters, durations and events of one instance, and the sinks they are told to. */
import { expect, it } from "vitest";
import type { Incarnation, TelemetryStats } from "../src/ports/index.js";
import { Telemetry } from "../src/telemetry/telemetry.js";

const silent = {
	debug: () => {},
	info: () => {},
	warn: () => {},
	error: () => {},
};

function telemetry(stats?: TelemetryStats): Telemetry {
	return new Telemetry("a".repeat(32) as Incarnation, silent, stats);
}

const transfer = {
	side: "source",
	scope: "serve",
	result: "success",
	blocks: 2,
	bytes: 128,
	elapsedMs: 250,
	peer: "p",
} as const;

it("counts by name and labels, whichever way it is told", () => {
	const told = telemetry();
	const received = told.family("kvcr_control_received_total", "type");
	received.count("start_write");
	received.count("start_write", 2);
	told.count("kvcr_control_received_total", { type: "start_write" });
	told.count("kvcr_control_received_total", { type: "write_probe" });
	told.count("kvcr_stalls_total");
	told.transfer(transfer);
	expect(told.counters()).toEqual({
		'kvcr_control_received_total{type="start_write"}': 4,
		'kvcr_control_received_total{type="write_probe"}': 1,
		kvcr_stalls_total: 1,
		'kvcr_transfers_total{side="source",scope="serve",result="success"}': 1,
		'kvcr_transfer_blocks_total{side="source"}': 2,
		'kvcr_transfer_bytes_total{side="source"}': 128,
	});
});

it("tells a sink every increase, and durations in seconds", () => {
	const increases: unknown[] = [];
	const durations: unknown[] = [];
	const told = telemetry({
		increaseCounter: (...increase) => increases.push(increase),
		observeHistogram: (...duration) => durations.push(duration),
	});
	told.family("kvcr_control_sent_total", "type").count("write_probe");
	told.transfer(transfer);
	const labels = { side: "source", scope: "serve", result: "success" };
	expect(increases).toEqual([
		["kvcr_control_sent_total", 1, { type: "write_probe" }],
		["kvcr_transfers_total", 1, labels],
		["kvcr_transfer_blocks_total", 2, { side: "source" }],
		["kvcr_transfer_bytes_total", 128, { side: "source" }],
	]);
	expect(durations).toEqual([["kvcr_transfer_seconds", 0.25, labels]]);
});

it("keeps its names whatever a sink does to the labels, and survives one that throws", () => {
	const told = telemetry({
		increaseCounter: (_name, _by, labels) => {
			(labels as Record<string, string>).pod = "p1";
			throw new Error("the registry is closed");
		},
		observeHistogram: (_name, _seconds, labels) => {
			(labels as Record<string, string>).pod = "p1";
		},
	});
	const sent = told.family("kvcr_control_sent_total", "type");
	sent.count("write_probe");
	sent.count("write_probe");
	told.transfer({ ...transfer, blocks: 0 });
	expect(told.counters()).toEqual({
		'kvcr_control_sent_total{type="write_probe"}': 2,
		'kvcr_transfers_total{side="source",scope="serve",result="success"}': 1,
	});
});

/** Which transports UCX can use here, as far as the kernel and UCX's own settings tell before a connection is made. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type UcxSettings, ucxSettings } from "./ucx-settings.js";

/** What was found. */
export interface TransportSurvey {
	/** Transports by UCX's names, most preferred first. */
	readonly transports: readonly string[];
	/** Whether there is an active RDMA device that UCX may use. */
	readonly rdma: boolean;
	/** Active RDMA ports such as `mlx5_0:1`, whether or not UCX may use them. */
	readonly rdmaDevices: readonly string[];
}

/** UCX's transports over RDMA devices, and within one machine. */
const RDMA = [
	...["rc_verbs", "rc_mlx5", "ud_verbs", "ud_mlx5", "dc_mlx5", "srd"],
	...["gga_mlx5", "rc_gda"],
];
const SHARED_MEMORY = ["posix", "sysv", "xpmem", "knem", "cma"];

/** Other names that `UCX_TLS` may hold. */
const ALIASES: ReadonlyMap<string, readonly string[]> = new Map([
	["ib", RDMA],
	["rc", ["rc_verbs", "rc_mlx5"]],
	["rc_v", ["rc_verbs"]],
	["rc_x", ["rc_mlx5"]],
	["ud", ["ud_verbs", "ud_mlx5"]],
	["ud_v", ["ud_verbs"]],
	["ud_x", ["ud_mlx5"]],
	["dc", ["dc_mlx5"]],
	["dc_x", ["dc_mlx5"]],
	["gga", ["gga_mlx5"]],
	["sm", SHARED_MEMORY],
	["shm", SHARED_MEMORY],
	["mm", ["posix", "sysv", "xpmem"]],
]);

/**
 * Looks at the machine.
 * @param env UCX's settings; by default those of the process, whatever the `process.env` of a worker says
 * @param sysfs where the kernel lists RDMA devices
 */
export function surveyTransports(
	env: UcxSettings = ucxSettings(),
	sysfs = "/sys/class/infiniband",
): TransportSurvey {
	const rdmaDevices = activePorts(sysfs).filter((port) =>
		deviceAllowed(port, env.UCX_NET_DEVICES),
	);
	const allowed = transportFilter(env.UCX_TLS);
	const rdma = rdmaDevices.length > 0 && RDMA.some(allowed);
	const transports: string[] = [];
	if (rdma) transports.push("rc");
	if (SHARED_MEMORY.some(allowed)) transports.push("sm");
	if (allowed("tcp")) transports.push("tcp");
	if (allowed("self")) transports.push("self");
	return { transports, rdma, rdmaDevices };
}

/** `UCX_TLS` is a list of names, or with a leading `^` a list of exceptions. */
function transportFilter(
	setting: string | undefined,
): (name: string) => boolean {
	if (setting === undefined || setting === "" || setting === "all")
		return () => true;
	const negative = setting.startsWith("^");
	const names = new Set(
		setting
			.replace(/^\^/, "")
			.split(",")
			.map((name) => name.trim().replace(/:.*/, "").replace(/^\\/, ""))
			.flatMap((name) => [name, ...(ALIASES.get(name) ?? [])]),
	);
	if (names.has("all")) return () => !negative;
	return (name) => names.has(name) !== negative;
}

function deviceAllowed(port: string, setting: string | undefined): boolean {
	if (setting === undefined || setting === "" || setting === "all") return true;
	return setting.split(",").some((name) => name.trim() === port);
}

function activePorts(sysfs: string): string[] {
	const ports: string[] = [];
	for (const device of list(sysfs)) {
		for (const port of list(join(sysfs, device, "ports"))) {
			if (/ACTIVE/.test(read(join(sysfs, device, "ports", port, "state"))))
				ports.push(`${device}:${port}`);
		}
	}
	return ports;
}

function list(folder: string): string[] {
	try {
		return readdirSync(folder).sort();
	} catch {
		return [];
	}
}

function read(path: string): string {
	try {
		return readFileSync(path, "utf8");
	} catch {
		return "";
	}
}

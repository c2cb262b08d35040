/** UCX's settings in the environment, as far as they matter here. */
import { type NativeBinding, nativeBinding } from "./native.js";

const NAMES = ["UCX_TLS", "UCX_NET_DEVICES", "UCX_UNIFIED_MODE"] as const;

/** The settings that are set. */
export type UcxSettings = Readonly<
	Partial<Record<(typeof NAMES)[number], string | undefined>>
>;

/** The settings as UCX reads them: from the environment of the process, also in a worker with an `env` of its own. */
export function ucxSettings(): UcxSettings {
	let binding: NativeBinding;
	try {
		binding = nativeBinding();
	} catch {
		// Without the addon there is no UCX either, only somebody who wants to know.
		return process.env;
	}
	return Object.fromEntries(
		NAMES.map((name) => [name, binding.environment(name)]),
	);
}

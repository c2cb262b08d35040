/** Starting an engine with whichever NIXL is there. */
import {
	NixlLibraryError,
	NixlNotFoundError,
	translateNative,
} from "./errors.js";
import { libraryCandidates } from "./locate.js";
import { type NativeAgent, nativeBinding } from "./native.js";
import { incompleteness } from "./whole-library.js";

/** Libraries that are loaded already: what becomes of their files does not matter any more. */
const loaded = new Set<string>();

/**
 * Tries the places NIXL may be in, in order.
 * @throws NixlNotFoundError, NixlLibraryError, NativeAddonError, TransferAgentError (as rejection)
 */
export async function startNative(
	operation: string,
	libraryPath: string | undefined,
	name: string,
	wake: () => void,
): Promise<NativeAgent> {
	const binding = nativeBinding();
	const { paths, explicit, lookedIn } = libraryCandidates(
		operation,
		libraryPath,
	);
	const last = paths.at(-1);
	for (const library of paths) {
		try {
			const incomplete = loaded.has(library)
				? undefined
				: incompleteness(library);
			if (incomplete !== undefined)
				throw new NixlLibraryError(operation, library, incomplete);
			const agent = await binding.createAgent(library, name, wake);
			loaded.add(library);
			return agent;
		} catch (error) {
			const translated = translateNative(operation, error, { library });
			// The loader's own path is the last resort: nothing there means nothing anywhere.
			const absent =
				!explicit &&
				library === last &&
				translated instanceof NixlLibraryError &&
				/cannot open shared object file/.test(translated.message);
			if (!absent) throw translated;
		}
	}
	throw new NixlNotFoundError(operation, lookedIn);
}

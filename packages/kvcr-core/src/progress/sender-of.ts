/** Who sent a control message, by what it says itself and without decoding it: asked of every message, of a flood's too. */
import { isAt } from "../ports/known-texts.js";

const NAME = Buffer.from("sender_incarnation");
/** How MessagePack begins a string of 32 bytes. */
const STR_8 = 0xd9;
const DIGITS = 32;
const FIELD = Buffer.concat([NAME, Buffer.from([STR_8, DIGITS])]);

/** Up to this length a loop is over before a call of the native search has begun, in bytes. */
const SHORT = 1_024;

/** The sender found last, who mostly sent the next message too: the same string again has its hash with it. */
const recentBytes = new Uint8Array(DIGITS);
let recent = "";

/**
 * The incarnation a message claims to come from (wire field `sender_incarnation`). A hint and no more: bytes within some other
 * field can pass for it.
 */
export function senderOf(bytes: Uint8Array): string | undefined {
	const start = valueAt(bytes);
	if (start < 0 || bytes.length < start + DIGITS) return undefined;
	if (recent !== "" && isAt(bytes, start, recentBytes)) return recent;
	recentBytes.set(bytes.subarray(start, start + DIGITS));
	recent = Buffer.from(recentBytes.buffer).toString("latin1");
	return recent;
}

/** Where the first value of the field begins, negative when there is none. */
function valueAt(bytes: Uint8Array): number {
	if (bytes.length <= SHORT) {
		for (let at = NAME.length; at < bytes.length; at++)
			if (bytes[at] === STR_8 && isAt(bytes, at - NAME.length, FIELD))
				return at + 2;
		return -1;
	}
	const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	const at = view.indexOf(FIELD);
	return at < 0 ? at : at + FIELD.length;
}

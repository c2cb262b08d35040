/**
 * Bounds on what a message may hold. A message is at most `MAX_CONTROL_MESSAGE_BYTES` long anyway; these keep one field
 * from using all of it and give later stages figures to rely on.
 */

/** Most keys in one `start_write`. */
export const MAX_KEYS_PER_WRITE = 16_384;

/** Most pieces (labels) of one block, in `start_write` and `hashes_resolved`. */
export const MAX_LABELS_PER_KEY = 4_096;

/** Most hashes in one `resolve_hashes`, and so most results in one `hashes_resolved`. */
export const MAX_HASHES_PER_MESSAGE = 1_024;

/** Longest agent name, endpoint, label or memory type, in bytes of UTF-8. */
export const MAX_STRING_BYTES = 1_024;

/** Largest agent metadata blob, in bytes. */
export const MAX_METADATA_BYTES = 768 * 1_024;

/** Most regions in each of the two maps of `target_regions`. */
export const MAX_REGIONS_PER_OWNER = 4_096;

/** Most elements all regions of one memory type may have together. */
export const MAX_REGION_ELEMENTS = 2 ** 31;

/** Deepest nesting of arrays and maps accepted, the message itself included. Known messages need 4. */
export const MAX_NESTING = 16;

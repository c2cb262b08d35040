/** What the user gave cannot be used; the message is all there is to say. */
export class UsageError extends Error {}

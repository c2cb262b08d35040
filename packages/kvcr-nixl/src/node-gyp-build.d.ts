declare module "node-gyp-build" {
	/** Loads the prebuilt addon of the package in a folder. */
	export default function nodeGypBuild(folder: string): unknown;
}

import { readFileSync } from 'node:fs'

// package.json is one folder above both the source and the compiled code.
const packageJson = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

/** Version of this command line. */
export const version: string = packageJson.version

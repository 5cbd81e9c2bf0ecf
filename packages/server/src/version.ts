import { readFileSync } from 'node:fs'

// package.json is one folder up, both from the source and from the compiled code.
const packageJson = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

export const version: string = packageJson.version

#!/usr/bin/env node
import { enableCompileCache, flushCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'

// Loading modules would grow the young generation to its maximum, and it never shrinks: 20 MiB of an idle service.
setFlagsFromString('--semi-space-growth-factor=1')

// This file is JavaScript because the cache must be enabled before the first TypeScript file is loaded. From source,
// Node would strip the types of every file at each start. The cache saves a third of the startup time and 25 MiB.
if (import.meta.url.includes('/src/')) {
  enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/wardline', import.meta.url)))
}
const { runCommand } = await import('./run.ts')
await runCommand(process.argv)
flushCompileCache()

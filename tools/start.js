import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

// What `npm start` runs. The service takes the place of this process: npm passes signals to its child alone, and a shell
// with several commands would end without passing them on, so that the service ran on with its port taken.
// JavaScript, because a process that strips types keeps 15 MiB for it.

const root = fileURLToPath(new URL('..', import.meta.url))

for (const args of [['packages/dashboard/build.ts', '--at-start'], ['tools/bundle.ts']]) {
  const { status } = spawnSync(process.execPath, ['--conditions=wardline-source', ...args], {
    cwd: root,
    stdio: 'inherit',
  })
  if (status !== 0) process.exit(status ?? 1)
}
await import(new URL('../node_modules/.cache/wardline/start.mjs', import.meta.url).href)

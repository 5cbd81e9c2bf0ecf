// A toy agent without a model, watched by Wardline. It works for a few seconds and stops by itself.
//
//   export WARDLINE_URL=http://127.0.0.1:4747 WARDLINE_KEY=<a key of scope agent for typescript-example>
//   npm run example -- typescript
//
// Suspend typescript-example while it works, or plant the decoy path /srv/backup/wallet.dat for it, and see what
// changes.

import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { createMonitor, WardlineDenied } from '@wardline/sdk'

const monitor = createMonitor({
  url: process.env.WARDLINE_URL ?? 'http://127.0.0.1:4747',
  key: process.env.WARDLINE_KEY ?? '',
  instanceId: 'typescript-example',
  name: 'TypeScript example',
})
monitor.on('suspend', ({ reason }) => console.log(`-- suspended: ${reason}`))

const tools = monitor.guardTools({
  'web-search': async (query: string) => `three pages about ${query}`,
  'file-read': async (path: string) => (await readFile(path, 'utf8')).slice(0, 40),
})

// Calls that a model might make; the last one was injected into one of the pages.
const plan = [
  ['web-search', 'tides at Ostend'],
  ['file-read', import.meta.filename],
  ['web-search', 'ferries to Ramsgate'],
  ['file-read', '/srv/backup/wallet.dat'],
] as const

await monitor.start()
try {
  for (const [tool, argument] of plan) {
    console.log(`${tool} ${argument}: ${await tools[tool](argument)}`)
    monitor.metrics.add('tool_calls_per_5min', 1)
    // Rejects immediately on a suspension, like every function that accepts a signal.
    await pause(400, undefined, { signal: monitor.signal })
  }
} catch (fault) {
  const why = (fault as Error).cause ?? fault
  if (why instanceof WardlineDenied) console.log(`denied (${why.code}): ${JSON.stringify(why.denial)}`)
  else console.log(`failed: ${(fault as Error).message}`)
}
console.log((await monitor.flush()) ? 'reports sent' : 'reports could not be sent')
await monitor.stop()

// A real agent: it listens for kills, confirms them, and reports each line that it reads as an event.

import { createInterface } from 'node:readline'
import { createMonitor } from '@wardline/sdk'

const [url = '', instanceId = ''] = process.argv.slice(2)
const monitor = createMonitor({
  url,
  key: process.env.WARDLINE_KEY ?? '',
  instanceId,
  version: '1.2.3',
  failMode: 'closed',
})
monitor.on('suspend', () => console.log('suspended'))
monitor.on('resume', () => console.log('resumed'))
await monitor.start()
console.log('ready')
for await (const description of createInterface(process.stdin)) {
  monitor.report({ severity: 'warning', eventType: 'policy_note', description })
  await monitor.flush()
}
await monitor.stop()
